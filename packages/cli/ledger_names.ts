/** User-facing names of the ledger's mechanisms. */
export const MECHANISM_NAMES: Readonly<Record<string, string>> = {
  context: "old turns",
  prune: "old results",
  truncate: "huge results",
  references: "duplicates",
  normalization: "normalization",
  schemas: "tool descriptions",
};

/** User-facing names of the states of prompt blocks. */
export const STATE_NAMES: Readonly<Record<string, string>> = {
  alive: "visible",
  deduplicated: "deduplicated",
  elided: "evicted",
  evicted: "evicted",
  summarised: "summarized",
};
