/** Tokens of one model call, in one dialect for all providers. */
export interface Usage {
  /** Tokens of the whole prompt, cached ones included. */
  readonly promptTokens: number;
  /** Of these, tokens that the provider served from its prefix cache. */
  readonly cachedTokens: number;
  /** Of these, tokens that the provider says it wrote to its cache, where it says so. */
  readonly cacheWriteTokens?: number;
  /** Of the tokens written to the cache, those that stay there for an hour, where it says so. */
  readonly hourWriteTokens?: number;
  /** Tokens that the model wrote, reasoning included. */
  readonly outputTokens: number;
  /** True if the provider sent no usage and the numbers were counted here. */
  readonly estimated?: boolean;
}

/** What tokens cost. */
export interface Cost {
  /** What prompts cost in token units: the price of one uncached input token is 1. Output isn't in it. */
  readonly tokenUnits: number;
  /** What prompts and replies cost in US dollars; absent where the model's price isn't known. */
  readonly usd?: number;
}

/** What two calls took together. What one of them doesn't report of cache writes is not in the sum. */
export function addUsage(a: Usage, b: Usage): Usage {
  const writes = a.cacheWriteTokens ?? b.cacheWriteTokens;
  const hours = a.hourWriteTokens ?? b.hourWriteTokens;
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    ...(writes !== undefined && { cacheWriteTokens: (a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0) }),
    ...(hours !== undefined && { hourWriteTokens: (a.hourWriteTokens ?? 0) + (b.hourWriteTokens ?? 0) }),
    outputTokens: a.outputTokens + b.outputTokens,
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}
