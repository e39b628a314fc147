import { servedTokens } from "../cache/prefix.ts";
import { promptCost } from "../ledger/ledger.ts";
import type { Removal } from "../retention/retention.ts";
import type { CachedPrompt } from "./decide.ts";

/**
 * What a request would cost, told before anything is sent. Costs are in token units: the price of one uncached input
 * token is 1.
 */
export interface Quote {
  /** The prompt as it stands. */
  readonly asIs: {
    /** Tokens of the prompt, as the provider counts them. */
    readonly promptTokens: number;
    /** Of these, tokens that the cache serves if it is still warm. */
    readonly cachedTokens: number;
    /** Cost if the cache is warm. */
    readonly warmTokenUnits: number;
    /** Cost if it is cold. */
    readonly coldTokenUnits: number;
  };
  /** The prompt without everything that could leave it now; its size is an estimate. */
  readonly rewritten: Quote["asIs"];
  /** Probability that the cached prefix is still there. */
  readonly alive: number;
}

/** Quotes a prompt as it stands, and without these removals, which stand in the order of the prompt. */
export function quotePrompt(
  removals: readonly Removal[],
  { profile, promptTokens, cachedTokens, alive }: CachedPrompt,
): Quote {
  const quoted = (promptTokens: number, cachedTokens: number): Quote["asIs"] => ({
    promptTokens,
    cachedTokens,
    warmTokenUnits: promptCost(profile, { promptTokens, cachedTokens }),
    coldTokenUnits: promptCost(profile, { promptTokens, cachedTokens: 0 }),
  });
  let removed = 0;
  for (const { tokens } of removals) removed += tokens;
  const [first] = removals;
  const kept = first
    ? Math.min(cachedTokens, servedTokens(profile, { promptTokens, sharedTokens: first.start }))
    : cachedTokens;
  return {
    asIs: quoted(Math.round(promptTokens), Math.round(cachedTokens)),
    rewritten: quoted(Math.max(0, Math.round(promptTokens - removed)), kept),
    alive,
  };
}
