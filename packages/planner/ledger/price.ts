import type { Profile } from "../providers.ts";

/**
 * What a prompt costs, in the price of one uncached input token: what the cache serves at the profile's reading
 * price, the rest at its writing price.
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
  { write, read }: Pick<Profile, "write" | "read">,
  { promptTokens, cachedTokens }: { readonly promptTokens: number; readonly cachedTokens: number },
): number {
  return cachedTokens * read + (promptTokens - cachedTokens) * write;
}
