import type { Usage } from "@tare/messages";

/**
 * The name of the profile that a usage with cached tokens points to, for a provider that nothing else is known of:
 * by whether it reports cache writes, otherwise by the blocks in which it caches. Absent if it shows none.
 */
export function recogniseProfile({ cachedTokens, cacheWriteTokens }: Usage): string | undefined {
  if (cachedTokens === 0) return undefined;
  if (cacheWriteTokens !== undefined) return "anthropic-5m";
  if (cachedTokens % 128 === 0) return "openai";
  if (cachedTokens % 64 === 0) return "deepseek";
  return cachedTokens % 16 === 0 ? "local" : "gemini";
}
