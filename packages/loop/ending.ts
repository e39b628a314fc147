import type { AssistantMessage, FinishReason, Usage } from "@tare/messages";
import type { TurnEnd } from "./event.ts";
import type { TurnLedger } from "./ledger.ts";
import { ModelError } from "./model_error.ts";
import type { ResolvedOptions } from "./run_options.ts";
import type { Watchdog } from "./watchdog.ts";

/** A model's whole reply. */
export interface Reply {
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
  /** What it cost: as the provider says, or else counted. */
  readonly usage: Usage;
}

/** Why a turn ends, and the error if one was thrown. */
export interface Ending extends Pick<TurnEnd, "reason" | "message" | "code"> {
  readonly error?: unknown;
}

/** What people are told of a reply that says nothing. */
export const EMPTY_REPLY = "The model's reply was empty.";

/** Whether a reply says nothing and calls nothing. Providers refuse a history that holds one. */
export function isEmptyReply({ content, refusal, tool_calls: calls }: AssistantMessage): boolean {
  const said = typeof content === "string" ? content.trim() : content ?? "";
  return said.length === 0 && !refusal && !calls?.length;
}

/** The ending that a reply brings about, or nothing if the turn goes on. */
export function endingByReply({ message, finishReason }: Reply): Ending | undefined {
  if (finishReason === "length") {
    return {
      reason: "output_limit",
      message: "The reply was cut off: it reached the provider's limit on output tokens.",
    };
  }
  if (finishReason === "content_filter") {
    return { reason: "model_error", message: "The provider's content filter stopped the reply." };
  }
  if (isEmptyReply(message)) return { reason: "completed", message: EMPTY_REPLY };
  return message.tool_calls?.length ? undefined : { reason: "completed" };
}

/** The ending by the turn's budget or its own limits after a step, or nothing if none is reached. */
export function endingByLimit(
  ledger: TurnLedger,
  { step, maxSteps, maxOutputTokens, overBudget }:
    & Pick<ResolvedOptions, "maxSteps" | "maxOutputTokens" | "overBudget">
    & { readonly step: number },
): Ending | undefined {
  const { outputTokens } = ledger;
  const spent = overBudget(ledger);
  if (spent !== undefined) return { reason: "budget", message: spent };
  if (outputTokens >= maxOutputTokens) {
    return {
      reason: "output_limit",
      message: `The turn reached its limit of ${maxOutputTokens} output tokens (it has ${outputTokens}).`,
    };
  }
  if (step >= maxSteps) {
    return { reason: "step_limit", message: `The turn reached its limit of ${maxSteps} model calls.` };
  }
  return undefined;
}

/** The ending when something was thrown: the turn was stopped, the model failed, or there is a bug. */
export function endingByError(
  error: unknown,
  { watchdog, idleTimeoutMs }: { readonly watchdog: Watchdog; readonly idleTimeoutMs: number },
): Ending {
  if (watchdog.stalled) {
    return { reason: "stalled", message: `Nothing moved for ${idleTimeoutMs / 1000} s.` };
  }
  if (watchdog.signal.aborted) return { reason: "cancelled", message: "The turn was cancelled." };
  if (error instanceof ModelError) {
    return { reason: "model_error", code: error.code, message: error.message, error };
  }
  return { reason: "internal_error", message: error instanceof Error ? error.message : String(error), error };
}
