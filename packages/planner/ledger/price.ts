import type { Usage } from "@tare/messages";
import type { Profile } from "../providers.ts";

/**
 * What a prompt costs, in the price of one uncached input token: what the cache serves at the profile's reading
 * price, the rest at its writing price; where the provider tells what it wrote for how long, that at the price of each,
 * and what was neither served nor written at 1.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed, promptCost } from "@tare/planner";
 *
 * assertEquals(promptCost(profileNamed("anthropic-5m"), { promptTokens: 1000, cachedTokens: 800 }), 330);
 * ```
 */
export function promptCost(
  { write, read, writes }: Pick<Profile, "write" | "read" | "writes">,
  usage: Pick<Usage, "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens">,
): number {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, hourWriteTokens } = usage;
  const uncached = promptTokens - cachedTokens;
  if (!writes || hourWriteTokens === undefined) return cachedTokens * read + uncached * write;
  const shortTokens = cacheWriteTokens - hourWriteTokens;
  return cachedTokens * read + (uncached - cacheWriteTokens) + shortTokens * writes.short +
    hourWriteTokens * writes.hour;
}
