/** Tokens of one model call, in one dialect for all providers. */
export interface Usage {
  /** Tokens of the whole prompt, cached ones included. */
  readonly promptTokens: number;
  /** Of these, tokens that the provider served from its prefix cache. */
  readonly cachedTokens: number;
  /** Of these, tokens that the provider says it wrote to its cache, where it says so. */
  readonly cacheWriteTokens?: number;
  /** Tokens that the model wrote, reasoning included. */
  readonly outputTokens: number;
  /** True if the provider sent no usage and the numbers were counted here. */
  readonly estimated?: boolean;
}
