import { NO_TOKENS, type TokenRecord } from "../cache/provider_tokens.ts";
import { NO_WARMTH, type WarmthRecord } from "../cache/warmth.ts";

/** What a planner remembers of a session. Plain data, a few numbers for each thing that could leave. */
export interface PlannerState {
  /** The last requests that succeeded, newest first: one for each model and set of tools, as each has its own prefix. */
  readonly sent: readonly SentRequest[];
  /** So many messages of the history were in a request that succeeded: the model has seen them, or lines in their place. */
  readonly seen: number;
  /** What carrying one token that the provider counts has cost so far, in the price of one uncached token. */
  readonly carried: number;
  /** {@linkcode PlannerState.carried} when each part that could leave first could: its rent is what was added since, for each of its tokens. */
  readonly idleSince: Readonly<Record<string, number>>;
  /** What the session showed of its provider's cache. */
  readonly warmth: WarmthRecord;
  /** What the session showed of how its provider counts. */
  readonly counted: TokenRecord;
  /** Cost of the session so far. */
  readonly paid: number;
  /** What it would have cost to resend everything. */
  readonly resend: number;
  /** Whether rewriting has cost more than it saved, so that it stopped. */
  readonly stopped: boolean;
  /** Whether it was forked from a session and has sent nothing since. Absent: no. */
  readonly forked?: boolean;
  /** Name of the profile that usage made it recognise, where none was known. */
  readonly recognised?: string;
}

/** A request, as far as the cache is concerned. Tokens are counted here. */
export interface SentRequest {
  /** Tells its tools, as the model saw them, from any others: one number each. */
  readonly tools: readonly number[];
  /** Tokens of its messages with which what the model sees now still starts. */
  readonly messageTokens: number;
  /** Tokens that it had, tools included. */
  readonly promptTokens: number;
  /** Tokens that it would have had if everything had been sent. */
  readonly fullTokens: number;
  /** Tells the full definitions of its tools from any others. */
  readonly toolsHash: number;
  /** When it was made. */
  readonly atMs: number;
  /** The model that it went to. */
  readonly model?: string | undefined;
}

/** A session that has sent nothing yet. */
export const NEW_SESSION: PlannerState = {
  sent: [],
  seen: 0,
  carried: 0,
  idleSince: {},
  warmth: NO_WARMTH,
  counted: NO_TOKENS,
  paid: 0,
  resend: 0,
  stopped: false,
};

/**
 * What is known once a history went back: `shared` of its messages stay, `kept` tokens at the start of what the model
 * sees, and `gone` tokens less if everything had been sent.
 */
export function cutBack(
  state: PlannerState,
  { shared, kept, gone }: { readonly shared: number; readonly kept: number; readonly gone: number },
): PlannerState {
  const cut = (one: SentRequest): SentRequest => ({
    ...one,
    messageTokens: Math.min(one.messageTokens, kept),
    fullTokens: Math.max(0, one.fullTokens - gone),
  });
  return { ...state, seen: Math.min(state.seen, shared), sent: state.sent.map(cut) };
}
