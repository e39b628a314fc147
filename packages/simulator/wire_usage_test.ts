import { assertEquals } from "@std/assert";
import { PROFILES } from "@tare/planner";
import { profileDialect, wireUsage } from "./wire_usage.ts";

const usage = {
  promptTokens: 100,
  cachedTokens: 64,
  cacheWriteTokens: 36,
  outputTokens: 10,
  reasoningTokens: 4,
};

const common = {
  prompt_tokens: 100,
  completion_tokens: 10,
  total_tokens: 110,
  prompt_tokens_details: { cached_tokens: 64 },
  completion_tokens_details: { reasoning_tokens: 4 },
};

Deno.test("wireUsage() reports the cache in each dialect", () => {
  assertEquals(wireUsage(usage, "openai"), common);
  assertEquals(wireUsage(usage, "deepseek"), {
    ...common,
    prompt_cache_hit_tokens: 64,
    prompt_cache_miss_tokens: 36,
  });
  assertEquals(wireUsage(usage, "anthropic"), {
    ...common,
    prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 36 },
    cache_read_input_tokens: 64,
    cache_creation_input_tokens: 36,
  });
});

Deno.test("profileDialect() gives each vendor its own", () => {
  const names = ["anthropic-5m", "anthropic-1h", "deepseek", "openai", "local", "none"];
  assertEquals(
    names.map((name) => PROFILES[name] && profileDialect(PROFILES[name])),
    ["anthropic", "anthropic", "deepseek", "openai", "openai", "openai"],
  );
});
