/** A result, or a step of an old turn, that could leave. */
export interface Item {
  readonly from: number;
  readonly to: number;
  readonly step: boolean;
  /** Tokens by which the prompt would shrink. */
  readonly tokens: number;
  readonly rent: number;
  /** What its absence is expected to cost until the window is full again. */
  readonly lossInRoom: number;
  /** Whether carrying it costs more than its absence. Only then its rent counts. */
  readonly idle: boolean;
  /** Whether it isn't worth being written again. */
  readonly goes: boolean;
}

/** A prompt that is too large. */
export interface TightPrompt {
  /** Where each message starts, in tokens. */
  readonly starts: readonly number[];
  readonly cachedTokens: number;
  /** What a cached token costs that a cut makes the provider read again. */
  readonly brokenPrice: number;
  readonly neededTokens: number;
}

/**
 * The items whose leaving costs least for each token of room, if they free enough. Cuts before the last 1, 2, 4, … items
 * are compared, each with more and less of what stands behind it.
 */
export function cheapestRoom(
  items: readonly Item[],
  { starts, cachedTokens, brokenPrice, neededTokens }: TightPrompt,
): Item[] | undefined {
  let best: { readonly cost: number; readonly items: Item[] } | undefined;
  for (let back = 1; back < 2 * items.length; back *= 2) {
    const behind = items.slice(-back);
    const start = starts[behind[0]?.from ?? 0] ?? 0;
    const byWorth = behind.toSorted((a, b) => a.lossInRoom / a.tokens - b.lossInRoom / b.tokens);
    let freed = 0;
    let loss = 0;
    for (const [at, { tokens, lossInRoom }] of byWorth.entries()) {
      freed += tokens;
      loss += lossInRoom;
      const cost = (brokenPrice * Math.max(0, cachedTokens - start - freed) + loss) / freed;
      if (freed >= neededTokens && cost < (best?.cost ?? Infinity)) {
        best = { cost, items: byWorth.slice(0, at + 1) };
      }
    }
  }
  return best?.items.sort((a, b) => a.from - b.from);
}
