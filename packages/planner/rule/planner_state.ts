import type { PromptUnit } from "../cache/prefix_cache.ts";
import { NO_WARMTH, type WarmthRecord } from "../cache/warmth.ts";

/** What a planner remembers of a session. Plain data, a few numbers for each message. */
export interface PlannerState {
  /** The last requests that succeeded, newest first: one for each model and set of tools, as each has its own prefix. */
  readonly sent: readonly SentRequest[];
  /** What carrying each part that could leave has cost since it could, in the price of one uncached token. */
  readonly rent: Readonly<Record<string, number>>;
  /** Names of the tools that the model was shown in full. */
  readonly exposed: readonly string[];
  /** What the session showed of its provider's cache. */
  readonly warmth: WarmthRecord;
  /** Cost of the session so far. */
  readonly paid: number;
  /** What it would have cost to resend everything. */
  readonly resend: number;
  /** Whether rewriting has cost more than it saved, so that it stopped. */
  readonly stopped: boolean;
  /** Name of the profile that usage made it recognise, where none was known. */
  readonly recognised?: string;
}

/** A request, as far as the cache is concerned. */
export interface SentRequest {
  /** Its tools and messages. */
  readonly units: readonly PromptUnit[];
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
  rent: {},
  exposed: [],
  warmth: NO_WARMTH,
  paid: 0,
  resend: 0,
  stopped: false,
};
