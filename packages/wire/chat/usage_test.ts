import { assertEquals } from "@std/assert";
import type { Usage } from "@tare/messages";
import { readUsage, writeUsage } from "./usage.ts";
import { assemble, delta } from "./assembler_fixture_test.ts";

function usageOf(...last: readonly unknown[]): Usage | undefined {
  return assemble([delta({ content: "Hi" }), ...last]).completed?.usage;
}

Deno.test("readUsage() reads every provider's dialect", () => {
  const dialects: Readonly<Record<string, readonly [unknown, Usage | undefined]>> = {
    openai: [
      {
        prompt_tokens: 100,
        completion_tokens: 20,
        total_tokens: 120,
        prompt_tokens_details: { cached_tokens: 64, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 15 },
      },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 20, reasoningTokens: 15 },
    ],
    responses: [
      {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 64, cache_write_tokens: 30 },
        output_tokens: 20,
        output_tokens_details: { reasoning_tokens: 15 },
        total_tokens: 120,
      },
      { promptTokens: 100, cachedTokens: 64, cacheWriteTokens: 30, outputTokens: 20, reasoningTokens: 15 },
    ],
    deepseek: [
      { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 5 },
    ],
    "deepseek without a sum": [
      { completion_tokens: 5, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 5 },
    ],
    moonshot: [
      { prompt_tokens: 100, completion_tokens: 5, cached_tokens: 50 },
      { promptTokens: 100, cachedTokens: 50, outputTokens: 5 },
    ],
    openrouter: [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 30 },
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic by a gateway": [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 50,
        prompt_tokens_details: null,
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic's own": [
      { input_tokens: 20, output_tokens: 5, cache_creation_input_tokens: 30, cache_read_input_tokens: 50 },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic's own, with what was written for an hour": [
      {
        input_tokens: 20,
        output_tokens: 5,
        cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
        cache_read_input_tokens: 50,
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, hourWriteTokens: 20, outputTokens: 5 },
    ],
    "a prompt without its cached part": [
      { prompt_tokens: 20, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 80 } },
      { promptTokens: 100, cachedTokens: 80, outputTokens: 5 },
    ],
    xai: [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 125,
        completion_tokens_details: { reasoning_tokens: 20 },
      },
      { promptTokens: 100, cachedTokens: 0, outputTokens: 25, reasoningTokens: 20 },
    ],
    zeros: [{ prompt_tokens: 0, completion_tokens: 0 }, undefined],
    nonsense: [{ prompt_tokens: "many" }, undefined],
    none: [null, undefined],
  };
  for (const [name, [raw, usage]] of Object.entries(dialects)) {
    assertEquals([name, readUsage(raw)], [name, usage]);
  }
});

Deno.test("ReplyAssembler finds the usage wherever it stands, and the last one counts", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 4 };
  const expected = { promptTokens: 9, cachedTokens: 0, outputTokens: 4 };
  const choice = { index: 0, delta: {}, finish_reason: "stop" };
  assertEquals(usageOf({ choices: [choice], usage }), expected);
  assertEquals(usageOf({ choices: [{ ...choice, usage }] }), expected);
  assertEquals(usageOf({ choices: [choice], x_groq: { usage } }), expected);
  assertEquals(
    usageOf({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1 } }, {
      choices: [choice],
      usage,
    }),
    expected,
  );
  assertEquals(usageOf({ choices: [choice] }), undefined);
});

Deno.test("writeUsage() reports the cache in each dialect, as readUsage() reads it", () => {
  const usage = { promptTokens: 100, cachedTokens: 64, cacheWriteTokens: 36, outputTokens: 10 };
  const common = {
    prompt_tokens: 100,
    completion_tokens: 10,
    total_tokens: 110,
    prompt_tokens_details: { cached_tokens: 64 },
  };
  assertEquals(writeUsage(usage), common);
  assertEquals(writeUsage({ ...usage, reasoningTokens: 4 }), {
    ...common,
    completion_tokens_details: { reasoning_tokens: 4 },
  });
  assertEquals(writeUsage(usage, "deepseek"), {
    ...common,
    prompt_cache_hit_tokens: 64,
    prompt_cache_miss_tokens: 36,
  });
  assertEquals(writeUsage(usage, "anthropic"), {
    ...common,
    prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 36 },
    cache_read_input_tokens: 64,
    cache_creation_input_tokens: 36,
  });
  assertEquals(readUsage(writeUsage(usage, "anthropic")), usage);
});
