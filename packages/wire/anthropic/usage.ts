import type { Usage } from "@tare/messages";
import { asRecord, type JsonRecord } from "../json_record.ts";

/**
 * Reads the usage of a reply: what was neither served nor taken by the cache, what was written to it, for five minutes
 * and for an hour, and what was read from it make up the prompt. Nothing if it tells no prompt tokens.
 */
export function readMessagesUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage) return undefined;
  const cachedTokens = countOf(usage.cache_read_input_tokens);
  const written = countOf(usage.cache_creation_input_tokens);
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } =
    asRecord(usage.cache_creation) ?? {};
  const cacheWriteTokens = Math.max(written, countOf(short) + countOf(long));
  const promptTokens = countOf(usage.input_tokens) + cacheWriteTokens + cachedTokens;
  if (promptTokens === 0) return undefined;
  return {
    promptTokens,
    cachedTokens,
    cacheWriteTokens,
    ...(typeof long === "number" && { hourWriteTokens: countOf(long) }),
    outputTokens: countOf(usage.output_tokens),
  };
}

/** Writes the usage of a reply. */
export function writeMessagesUsage(usage: Usage): JsonRecord {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, hourWriteTokens = 0, outputTokens } = usage;
  return {
    input_tokens: promptTokens - cachedTokens - cacheWriteTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    cache_creation: {
      ephemeral_5m_input_tokens: cacheWriteTokens - hourWriteTokens,
      ephemeral_1h_input_tokens: hourWriteTokens,
    },
    output_tokens: outputTokens,
  };
}

function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}
