import type { Usage } from "@tare/messages";
import type { Layout } from "../edits/layout.ts";
import type { Decision } from "../rule/plan.ts";

/** Tokens of a prompt by what they are. */
export interface PromptShares {
  readonly tools: number;
  /** System and developer messages. */
  readonly core: number;
  /** What user and model said in earlier turns. */
  readonly oldTurns: number;
  /** What user and model said in the turn that is being worked on. */
  readonly activeTurn: number;
  /** Tool results that are there. */
  readonly results: number;
  /** Lines that stand for what left. */
  readonly placeholders: number;
}

/**
 * Why tokens of a prompt were not served from the cache: the session's `first_call`; `new`, they were not in the
 * request before; `own_rewrite`, an edit moved them; `tools_changed`; `model_changed`; `expired`, the call came
 * after the profile's time to live; `provider_lost`, it came before.
 */
export type UncachedCause =
  | "first_call"
  | "new"
  | "own_rewrite"
  | "tools_changed"
  | "model_changed"
  | "expired"
  | "provider_lost";

/** What one call cost and why. Costs are in token units: the price of one uncached input token is 1. */
export interface LedgerEntry {
  /** What the provider reported. */
  readonly usage: Usage;
  /** Of the prompt's tokens, those that the cache model expected to be served. */
  readonly predictedCachedTokens: number;
  /** The prompt by what it consists of, counted here. */
  readonly shares: PromptShares;
  /** Tokens that were not served from the cache, by cause. */
  readonly uncached: readonly { readonly cause: UncachedCause; readonly tokens: number }[];
  /** What a model reported that was asked for a summary before this call. */
  readonly summary?: Usage;
  /** What the prompt cost, a summary made for it included. */
  readonly tokenUnits: number;
  /** What the prompt would have taken if everything had been sent, by the cache model. */
  readonly resend: Pick<Usage, "promptTokens" | "cachedTokens">;
  /** What that would have cost. */
  readonly resendTokenUnits: number;
  /** What the session has saved so far against sending everything; negative if it lost. */
  readonly savedTokenUnits: number;
  /** Whether rewriting has cost the session so much more than it saved that it stopped. */
  readonly stopped: boolean;
  /** The rewrite that was weighed for this call. */
  readonly decision?: Decision;
}

/** A prompt by what it consists of, if the turn that is being worked on starts at a position. */
export function sharePrompt(
  layout: Layout,
  { activeStart, toolTokens }: { readonly activeStart: number; readonly toolTokens: number },
): PromptShares {
  const { core, said, results, placeholders } = layout.sums;
  const oldTurns = layout.saidBefore(activeStart);
  return { tools: toolTokens, core, oldTurns, activeTurn: said - oldTurns, results, placeholders };
}

/** What each mechanism keeps out of a prompt. */
export function savedTokens(
  layout: Layout,
  { truncated, all, schemas }: {
    readonly truncated: readonly number[];
    readonly all: number;
    readonly schemas: number;
  },
): Readonly<Record<"context" | "prune" | "schemas" | "truncate", number>> {
  const truncate = truncated.reduce((sum, at) => sum + layout.savedAt(at), 0);
  const prune = layout.sums.elided - truncate;
  return { context: all - schemas - prune - truncate, prune, schemas, truncate };
}

/** What {@linkcode explainUncached} goes by. All tokens are the provider's. */
export interface CacheStory {
  /** Tokens of the prompt that were not served. */
  readonly uncachedTokens: number;
  /** Whether nothing was sent before; or another model, or other tools, than now. */
  readonly change: "first_call" | "model_changed" | "tools_changed" | "none";
  /** Tokens at the end of the request before with which this one no longer goes on. */
  readonly brokenTokens: number;
  /** Tokens of the request before that a warm cache would have served and this one didn't. */
  readonly missingTokens: number;
  /** Whether the profile's time to live was over. */
  readonly late: boolean;
}

/** Says of every uncached token of a request why it was not served. */
export function explainUncached(
  { uncachedTokens, change, brokenTokens, missingTokens, late }: CacheStory,
): LedgerEntry["uncached"] {
  if (change === "first_call" || change === "model_changed") {
    return [{ cause: change, tokens: uncachedTokens }];
  }
  const causes: { readonly cause: UncachedCause; readonly tokens: number }[] = [];
  let left = uncachedTokens;
  const explain = (cause: UncachedCause, tokens: number) => {
    const its = Math.min(left, Math.max(0, Math.round(tokens)));
    if (its > 0) causes.push({ cause, tokens: its });
    left -= its;
  };
  explain(late ? "expired" : "provider_lost", missingTokens);
  explain(change === "tools_changed" ? change : "own_rewrite", brokenTokens);
  explain("new", left);
  return causes;
}
