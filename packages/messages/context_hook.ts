import type { Message } from "./message.ts";
import type { StableMessages } from "./model.ts";
import type { ToolDefinition } from "./tool.ts";
import type { Usage } from "./usage.ts";

/** What the loop is about to send. */
export interface ContextRequest {
  /** The whole conversation, the active turn included. */
  readonly messages: readonly Message[];
  /** Index in `messages` of the first message of the active turn. */
  readonly turnStart: number;
  /** Full definitions of the tools. */
  readonly tools: readonly ToolDefinition[];
  /** Number of the model call in this turn, from 1. */
  readonly step: number;
  /** Aborted when the turn is cancelled. A hook that only computes or archives need not look at it. */
  readonly signal: AbortSignal;
  /** Tells the watchdog that a hook which takes long, such as one that asks a model for a summary, is alive. */
  readonly progress: () => void;
}

/** A change of what the model sees: what left the prompt, and why. */
export interface Rewrite {
  /** Which mechanism made it: `context`, `prune`, `truncate`, `schemas`, … */
  readonly mechanism: string;
  /** Why now, in one sentence. */
  readonly reason: string;
  /** What left, in one sentence. */
  readonly removed: string;
  /** Tokens of the request before this change. */
  readonly tokensBefore: number;
  /** Tokens of the request after it. */
  readonly tokensAfter: number;
  /** What people had asked for of single messages and was done with it. Default: nothing. */
  readonly asked?: readonly {
    /** Position of the message in the history. */
    readonly place: number;
    /** That it comes back and stays, or that it leaves. */
    readonly wish: "keep" | "let_go";
    readonly by: string;
  }[];
}

/** What the model shall see. */
export interface ContextView {
  readonly messages: readonly Message[];
  /** The tools, each in the form that the model is shown now. */
  readonly tools: readonly ToolDefinition[];
  /** What of the messages stays as it is. Default: it isn't known. */
  readonly stable?: StableMessages;
  /** Changes that are new with this request. Sticky changes are reported once, when they are made. */
  readonly rewrites?: readonly Rewrite[];
  /** Tokens that each mechanism keeps out of this very request, by its name. */
  readonly saved?: Readonly<Record<string, number>>;
  /** What models were paid for making it, such as one that summarised. It counts even if the request fails. */
  readonly usage?: Usage;
  /** Sentences for people, such as an archive that could not be written. */
  readonly warnings?: readonly string[];
  /**
   * Called once the request has succeeded, with its own usage (not summed over retries), before the reply's calls are
   * run. What it returns, plain data, becomes the `ledger` of the step's end.
   */
  readonly succeeded?: (usage: Usage) => object | undefined;
}

/** The loop's one hook: turns the conversation into the view that the next request sends. */
export type ContextHook = (request: ContextRequest) => Promise<ContextView> | ContextView;
