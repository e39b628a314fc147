/** What may leave the prompt, and what of it stays. */
export interface Retention {
  /** Tokens at the end of the history in which no result goes; at most half the window. Infinite: none goes. */
  readonly protectTokens: number;
  /** Complete turns behind so many tokens of newer complete turns, as the model sees them, go whole; at most a quarter of the window. */
  readonly historyTokens: number;
  /** Least worth of a name that stays in the line that stands for what left (see the names that stay). Infinite: none stays. */
  readonly nameWorth: number;
  /** Whether tools whose full definitions the model has seen are shown by names and types alone. */
  readonly compactTools: boolean;
}

/** What is still wanted stays: the default. The figures are those that won the benchmark. */
export const KEEP_WANTED: Retention = {
  protectTokens: 16_384,
  historyTokens: 24_576,
  nameWorth: 0.2,
  compactTools: true,
};

/** By age alone: results behind the protected tail go, whatever they hold; turns and tools stay. */
export const BY_AGE: Retention = {
  protectTokens: 16_384,
  historyTokens: Infinity,
  nameWorth: Infinity,
  compactTools: false,
};
