import type { Message, StableMessages, Usage } from "@tare/messages";
import type { Edit } from "../edits/edit.ts";
import type { PromptShares } from "../ledger/ledger.ts";
import type { FullWindow } from "../edits/full_window.ts";
import type { Removal } from "../retention/find_removals.ts";
import type { Pin } from "../edits/pin.ts";
import type { Conversation, PlacedView } from "../edits/view.ts";
import type { DeferredTools, PromptSessionOptions } from "../prompt_session.ts";
import type { Prediction } from "./predict.ts";
import type { Cut } from "./weigh_cuts.ts";

/** What a planner goes by. */
export interface PlannerOptions extends Omit<PromptSessionOptions, "mechanisms" | "state"> {
  /** Whether a full window may go further than price does. Default true. */
  readonly relievesWindow?: boolean;
}

/** A call that is about to be made. */
export interface PlanRequest extends Conversation {
  /** The edits made so far, in order. */
  readonly edits: readonly Edit[];
  /** The time of the request, in milliseconds since any fixed moment. */
  readonly nowMs: number;
  /** Name of the model: another model has another cache. Default: always the same. */
  readonly model?: string;
  /** Positions of results that show head and tail. Default: none. */
  readonly truncated?: readonly number[];
  /** Tools whose definitions the request goes without. Default: none. */
  readonly deferred?: DeferredTools;
  /** Whether the model is offered the recall tool, so that lines may point to it. Default: false. */
  readonly recall?: boolean;
  /** What was asked for of single messages of this history. Default: nothing. */
  readonly pins?: readonly Pin[];
  /** Ends the wait for a summary. */
  readonly signal?: AbortSignal;
  /** Told that a summary which takes long is alive. */
  readonly progress?: () => void;
  /** What the session remembers of its full window. Default: it was never full. */
  readonly fullWindow?: FullWindow;
}

/**
 * Why the prompt was rewritten: `price`, the rent paid for what left equals what its leaving costs; `window`, the
 * prompt would not fit. Or why it was not: `wait`, its price is not paid yet; `loss_limit`, buying now could cost
 * the session more than its limit; `stopped`, earlier rewrites cost the session more than they saved.
 */
export type DecisionCause = "price" | "window" | "wait" | "loss_limit" | "stopped";

/** A rewrite that was weighed, in numbers. Costs are in the price of one uncached input token. */
export interface Decision extends Omit<Cut, "first"> {
  /** Why it was made, or was not. */
  readonly cause: DecisionCause;
  /** Probability that the cached prefix was still there. */
  readonly alive: number;
}

/** What one call shall send. */
export interface Plan {
  /** New edits, to be stored before the request is made. */
  readonly edits: readonly Edit[];
  /** What was asked for and is done with this call. */
  readonly asked: readonly Pin[];
  /** What was asked for and can't be had, or no longer. */
  readonly ended: readonly Pin[];
  /** Whether the planner has changed the prompt by itself, or the window was full. */
  readonly isBought: boolean;
  /** All edits that hold from now on. */
  readonly allEdits: readonly Edit[];
  /** What the model sees. */
  readonly view: PlacedView;
  /** Tokens of the view. */
  readonly promptTokens: number;
  /** Tokens that the view would have without the new edits. */
  readonly tokensBefore: number;
  /** The best rewrite that could be made, made or not; absent if nothing could leave. */
  readonly decision?: Decision;
  readonly warnings: readonly string[];
  /** What a model was paid for summarising. */
  readonly summary?: Usage;
  /** What the session shall remember of its full window. */
  readonly fullWindow: FullWindow;
  /** The call that was planned. */
  readonly request: PlanRequest;
  /** What carrying costs more than its absence, and stayed. */
  readonly pending: readonly Removal[];
  /** The prompt by what it consists of. */
  readonly shares: PromptShares;
  /** Tokens that each mechanism keeps out of it. */
  readonly saved: Readonly<Record<"context" | "prune" | "schemas" | "truncate", number>>;
  /** Tokens of the whole conversation, as it was said. */
  readonly fullTokens: number;
  /** What the cache is expected to do for it; tokens are counted here. */
  readonly predicted: Prediction;
  /** What of the view stays as it is. */
  readonly stable: StableMessages;
}

/** Of what a model is asked for a summary, and how. */
export interface SummaryRequest {
  /**
   * The conversation as the provider's cache knows it, with all that is to be summarised in it: a request that goes on
   * from it is read from the cache.
   */
  readonly sent: Conversation;
  /** What is to be summarised, in order, as the model sees it; the user's messages too, whether they stay or leave. */
  readonly messages: readonly Message[];
  /** Of these, the user's messages that leave. The others of them stay in the prompt. */
  readonly users: readonly Message[];
  /** The first message behind, which stays. */
  readonly next?: Message;
  /** The model's context window, in tokens as they are counted here. Default: unknown. */
  readonly windowTokens?: number;
  /** Ends the wait. */
  readonly signal?: AbortSignal;
  /** To be told that the model is at work. */
  readonly progress?: () => void;
}

/** A summary of old messages, and what the call for it took. */
export interface Summary {
  /** The summary; empty if the model gave none. */
  readonly text: string;
  /** What the provider reported. */
  readonly usage: Usage;
}

/** Asks a model for a summary of old messages. A rejection is a failure, and so is an empty text, which is paid. */
export type Summarise = (request: SummaryRequest) => Promise<Summary>;
