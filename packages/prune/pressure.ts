/** How full a model's window is. */
export interface PressureOptions {
  /**
   * Tokens of one prompt. Usage summed over retries or over the steps of a turn is not the size of a prompt.
   */
  readonly promptTokens: number;
  /** Tokens of the model's context window. Unknown means that there is no pressure. */
  readonly windowTokens?: number | undefined;
  /** Share of the window from which on results are pruned. Default 0.8. */
  readonly pruneAt?: number;
  /** Share of the window from which on old turns are folded as well. Default 0.9. */
  readonly foldAt?: number;
}

/** What a full window asks for. */
export type Pressure = "none" | "prune" | "fold";

/**
 * What the window's fullness asks for: nothing, pruning (with a fold only if that wasn't enough), or both.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { pressure } from "@tare/prune";
 *
 * assertEquals(pressure({ promptTokens: 850, windowTokens: 1000 }), "prune");
 * assertEquals(pressure({ promptTokens: 850 }), "none");
 * ```
 */
export function pressure(options: PressureOptions): Pressure {
  const { promptTokens, windowTokens = Infinity, pruneAt = 0.8, foldAt = 0.9 } = options;
  if (promptTokens >= foldAt * windowTokens) return "fold";
  return promptTokens >= pruneAt * windowTokens ? "prune" : "none";
}
