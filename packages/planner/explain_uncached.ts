import type { LedgerEntry, UncachedCause } from "./ledger.ts";

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
