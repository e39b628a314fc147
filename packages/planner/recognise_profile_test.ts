import { assertEquals } from "@std/assert";
import { recogniseProfile } from "./recognise_profile.ts";

Deno.test("recogniseProfile() goes by reported writes, then by blocks, and by nothing where nothing was cached", () => {
  const usage = (cachedTokens: number) => ({ promptTokens: 5_000, cachedTokens, outputTokens: 1 });
  assertEquals(recogniseProfile(usage(0)), undefined);
  assertEquals(recogniseProfile({ ...usage(1_280), cacheWriteTokens: 0 }), "anthropic-5m");
  assertEquals([1_280, 1_344, 1_360, 1_361].map((tokens) => recogniseProfile(usage(tokens))), [
    "openai",
    "deepseek",
    "local",
    "gemini",
  ]);
});
