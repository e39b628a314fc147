import type { AssistantMessage, Content, Cost, FinishReason, Rewrite, Usage } from "@tare/messages";
import type { AskedCall } from "./approval.ts";
import type { TurnLedger } from "./ledger.ts";
import type { ModelErrorCode } from "./model_error.ts";

/**
 * Why a turn ended: the model answered; it called tools that the caller runs; somebody has to be asked before a call runs; the
 * caller aborted; a limit or the caller's budget was reached; nothing moved for too long; the process that ran it ended (told later, by who finds it); or the provider failed (or a bug did:
 * `internal_error`).
 */
export type TurnEndReason =
  | "completed"
  | "tool_calls"
  | "approval"
  | "cancelled"
  | "step_limit"
  | "output_limit"
  | "budget"
  | "stalled"
  | "interrupted"
  | "model_error"
  | "internal_error";

/** How a turn ended. */
export interface TurnEnd {
  readonly reason: TurnEndReason;
  /** The model's last text; empty if there is none. */
  readonly text: string;
  /** What went wrong or which limit was reached, in one sentence. */
  readonly message?: string;
  /** What the provider failed with, if it did. */
  readonly code?: ModelErrorCode;
  /** What the turn cost. */
  readonly ledger: TurnLedger;
}

/** Everything that happens in a turn, in one flat union. `step` counts model calls from 1. */
export type LoopEvent =
  /** Without `input` the turn goes on where an earlier one stopped. */
  | { readonly type: "turn_start"; readonly input?: Content }
  | { readonly type: "step_start"; readonly step: number }
  /** What the user said in the middle of the turn. */
  | { readonly type: "user_message"; readonly step: number; readonly input: Content }
  | ({ readonly type: "context_rewritten"; readonly step: number } & Rewrite)
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "text_delta"; readonly step: number; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly step: number; readonly text: string }
  /** The model's whole reply, as it enters the history; emitted before its calls are run. */
  | { readonly type: "assistant_message"; readonly step: number; readonly message: AssistantMessage }
  | {
    readonly type: "tool_call";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  }
  /** What a call that takes its time has given so far, for those who watch: the next piece, and of much output only the first. */
  | { readonly type: "tool_output"; readonly step: number; readonly id: string; readonly text: string }
  /** Emitted as each call ends; results enter the history in the order of the calls. */
  | {
    readonly type: "tool_result";
    readonly step: number;
    readonly id: string;
    readonly name: string;
    readonly content: string;
    readonly error: boolean;
    /** UTF-8 bytes of `content`. */
    readonly bytes: number;
    readonly durationMs: number;
  }
  /** The call didn't run: the turn ends, and goes on once somebody has said whether it may. */
  | ({
    readonly type: "approval_asked";
    readonly step: number;
    /** When it was asked, in milliseconds since the epoch, where who plays the turn has a clock. */
    readonly askedAtMs?: number;
    /** When the time for an answer is over, where it ever is. */
    readonly expiresAtMs?: number;
  } & AskedCall)
  | {
    readonly type: "step_end";
    readonly step: number;
    /** When the model had answered, in milliseconds since the epoch, where who plays the turn has a clock. */
    readonly atMs?: number;
    readonly usage: Usage;
    /** What the call cost, where the caller knows. */
    readonly cost?: Cost;
    readonly finishReason: FinishReason;
    /** What the context hook says of the call, where it keeps a ledger. */
    readonly ledger?: object;
  }
  | ({ readonly type: "turn_end" } & TurnEnd);
