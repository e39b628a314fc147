/**
 * What a session has shown of how its provider counts: sums over its calls, of prompts as counted here (`ours`) and as
 * the provider reported them (`theirs`). Plain data.
 */
export interface TokenRecord {
  readonly calls: number;
  readonly ours: number;
  readonly theirs: number;
  readonly oursSquared: number;
  readonly product: number;
}

/** A session that has shown nothing yet. */
export const NO_TOKENS: TokenRecord = { calls: 0, ours: 0, theirs: 0, oursSquared: 0, product: 0 };

/** Turns tokens that are counted here into the provider's. */
export interface TokenScale {
  /** What the provider counts for each token: another tokenizer than ours counts more or less. */
  readonly perToken: number;
  /** What it counts that isn't to be seen here, such as a prefix that the client adds. */
  readonly unseen: number;
}

/** So much the prompts of a session must differ in length, in tokens, to tell another tokenizer from an unseen prefix. */
const PRIOR_SPREAD_TOKENS = 4_000;

/** The record after one more call. */
export function observeTokens(
  { ours, theirs }: { readonly ours: number; readonly theirs: number },
  record: TokenRecord,
): TokenRecord {
  return {
    calls: record.calls + 1,
    ours: record.ours + ours,
    theirs: record.theirs + theirs,
    oursSquared: record.oursSquared + ours * ours,
    product: record.product + ours * theirs,
  };
}

/** The scale that fits a session's calls best: a ridge regression (Hoerl, Kennard 1970) towards one to one. */
export function tokenScale({ calls, ours, theirs, oursSquared, product }: TokenRecord): TokenScale {
  if (calls === 0) return { perToken: 1, unseen: 0 };
  const prior = PRIOR_SPREAD_TOKENS ** 2;
  const perToken = (product - ours * theirs / calls + prior) / (oursSquared - ours * ours / calls + prior);
  // In steps, so that what was judged by it stays judged while it hardly moves.
  const bounded = Math.min(3, Math.max(0.5, Math.round(50 * perToken) / 50));
  // Who counts less than is seen here has a coarser tokenizer, whatever the slope.
  const unseen = (theirs - bounded * ours) / calls;
  return unseen >= 0 ? { perToken: bounded, unseen } : { perToken: theirs / ours, unseen: 0 };
}

/** So many tokens from the start of a prompt, as the provider counts them. */
export function scaled({ perToken, unseen }: TokenScale, tokens: number): number {
  return Math.max(0, unseen + perToken * tokens);
}

/** How many tokens counted here are so many of the provider's. */
export function unscaled({ perToken, unseen }: TokenScale, tokens: number): number {
  return Math.max(0, tokens - unseen) / perToken;
}
