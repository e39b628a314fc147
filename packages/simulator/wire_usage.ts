import type { Usage } from "@tare/messages";
import type { Profile } from "@tare/planner";

/**
 * How a provider reports its cache:
 *
 * - `openai`: `prompt_tokens_details.cached_tokens`;
 * - `deepseek`: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens` beside it;
 * - `anthropic`: as gateways to Anthropic report it, `cache_read_input_tokens` and `cache_creation_input_tokens`,
 *   the same again in `prompt_tokens_details`.
 *
 * In all of them `prompt_tokens` is the whole prompt, cached tokens included.
 */
export type Dialect = "openai" | "deepseek" | "anthropic";

/** The dialect in which a provider of this profile reports its cache. */
export function profileDialect(profile: Profile): Dialect {
  if (profile.name.startsWith("anthropic")) return "anthropic";
  return profile.name === "deepseek" ? "deepseek" : "openai";
}

/** The `usage` object of a reply. */
export function wireUsage(
  usage: Usage & { readonly reasoningTokens: number },
  dialect: Dialect,
): Readonly<Record<string, unknown>> {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, reasoningTokens } = usage;
  const common = {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  };
  switch (dialect) {
    case "openai":
      return common;
    case "deepseek":
      return {
        ...common,
        prompt_cache_hit_tokens: cachedTokens,
        prompt_cache_miss_tokens: promptTokens - cachedTokens,
      };
    case "anthropic":
      return {
        ...common,
        prompt_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
        cache_read_input_tokens: cachedTokens,
        cache_creation_input_tokens: cacheWriteTokens,
      };
  }
}
