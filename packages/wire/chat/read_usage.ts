import type { Usage } from "@tare/messages";
import { asRecord, type JsonRecord } from "../json_record.ts";

/**
 * Reads a provider's `usage` in any of the dialects in use:
 *
 * - OpenAI: `prompt_tokens` with `prompt_tokens_details.cached_tokens`
 * - DeepSeek: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`
 * - Moonshot: `cached_tokens`
 * - OpenRouter: `prompt_tokens_details.cache_write_tokens`
 * - Anthropic and gateways to it: `cache_read_input_tokens`, `cache_creation_input_tokens`, and `input_tokens`, which
 *   holds neither of the two
 * - xAI: `completion_tokens` without the reasoning, which `total_tokens` shows
 *
 * @returns The usage, or nothing if the value tells no prompt tokens (some servers send zeros).
 */
export function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage) return undefined;
  const details = asRecord(usage.prompt_tokens_details) ?? asRecord(usage.input_tokens_details) ?? {};
  const cachedTokens = largest(
    details.cached_tokens,
    usage.prompt_cache_hit_tokens,
    usage.cache_read_input_tokens,
    usage.cached_tokens,
  ) ?? 0;
  const cacheWriteTokens = largest(
    details.cache_write_tokens,
    details.cache_creation_tokens,
    usage.cache_write_tokens,
    usage.cache_creation_input_tokens,
  );
  const promptTokens = wholePrompt(usage, cachedTokens + (cacheWriteTokens ?? 0));
  if (!promptTokens) return undefined;
  return {
    promptTokens,
    cachedTokens,
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
    outputTokens: wholeOutput(usage),
  };
}

function wholePrompt(usage: JsonRecord, cacheTokens: number): number {
  const told = largest(
    usage.prompt_tokens,
    (largest(usage.prompt_cache_hit_tokens) ?? 0) + (largest(usage.prompt_cache_miss_tokens) ?? 0),
    (largest(usage.input_tokens) ?? 0) + (largest(usage.cache_read_input_tokens) ?? 0) +
      (largest(usage.cache_creation_input_tokens) ?? 0),
  ) ?? 0;
  // What the cache served and took is a part of the prompt: a smaller figure leaves it out.
  return told > 0 && told < cacheTokens ? told + cacheTokens : told;
}

function wholeOutput(usage: JsonRecord): number {
  const written = largest(usage.completion_tokens, usage.output_tokens) ?? 0;
  const reasoning = largest(asRecord(usage.completion_tokens_details)?.reasoning_tokens) ?? 0;
  const apart = (largest(usage.prompt_tokens) ?? 0) + written + reasoning;
  return (largest(usage.total_tokens) ?? 0) >= apart ? written + reasoning : written;
}

function largest(...values: readonly unknown[]): number | undefined {
  const counts = values.filter((value) => typeof value === "number" && Number.isFinite(value) && value >= 0);
  return counts.length > 0 ? Math.max(...counts as number[]) : undefined;
}
