import type { Usage } from "@tare/messages";
import { asRecord, type JsonRecord } from "../json.ts";

/** Writes the `usage` of a reply, in a dialect of `CompletionWriter`. */
export function writeUsage(
  usage: Usage,
  dialect: "openai" | "deepseek" | "anthropic" = "openai",
): JsonRecord {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, reasoningTokens } = usage;
  const common = {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(reasoningTokens !== undefined &&
      { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
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

/**
 * Reads a provider's `usage` in any dialect of a `CompletionWriter`, or in one of these:
 *
 * - Moonshot: `cached_tokens`
 * - OpenRouter: `prompt_tokens_details.cache_write_tokens`
 * - Anthropic itself: `input_tokens`, which holds neither what the cache served nor what it took, for five minutes or
 *   for an hour
 * - xAI: `completion_tokens` without the reasoning, which `total_tokens` shows
 *
 * @returns The usage, or undefined if the value has no prompt tokens (some servers send zeros).
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { readUsage } from "@tare/wire";
 *
 * const usage = { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: 5 };
 * assertEquals(readUsage(usage), { promptTokens: 100, cachedTokens: 90, outputTokens: 5 });
 * ```
 */
export function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage) return undefined;
  const details = asRecord(usage.prompt_tokens_details) ?? asRecord(usage.input_tokens_details) ?? {};
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: hour } =
    asRecord(usage.cache_creation) ?? {};
  const hourWriteTokens = largest(hour);
  const created = largest(
    usage.cache_creation_input_tokens,
    largest(short, hour) === undefined ? undefined : (largest(short) ?? 0) + (hourWriteTokens ?? 0),
  );
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
    created,
  );
  const promptTokens = wholePrompt(usage, { created, cacheTokens: cachedTokens + (cacheWriteTokens ?? 0) });
  if (!promptTokens) return undefined;
  return {
    promptTokens,
    cachedTokens,
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
    ...(hourWriteTokens !== undefined && { hourWriteTokens }),
    outputTokens: wholeOutput(usage),
    ...(reasoningOf(usage) > 0 && { reasoningTokens: reasoningOf(usage) }),
  };
}

function wholePrompt(
  usage: JsonRecord,
  { created = 0, cacheTokens }: { readonly created: number | undefined; readonly cacheTokens: number },
): number {
  const told = largest(
    usage.prompt_tokens,
    (largest(usage.prompt_cache_hit_tokens) ?? 0) + (largest(usage.prompt_cache_miss_tokens) ?? 0),
    (largest(usage.input_tokens) ?? 0) + (largest(usage.cache_read_input_tokens) ?? 0) + created,
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

function reasoningOf(usage: JsonRecord): number {
  const details = asRecord(usage.completion_tokens_details) ?? asRecord(usage.output_tokens_details);
  return largest(details?.reasoning_tokens) ?? 0;
}

function largest(...values: readonly unknown[]): number | undefined {
  const counts = values.filter((value) => typeof value === "number" && Number.isFinite(value) && value >= 0);
  return counts.length > 0 ? Math.max(...counts as number[]) : undefined;
}
