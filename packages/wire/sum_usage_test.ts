import { assertEquals } from "@std/assert";
import { sumUsage } from "./sum_usage.ts";

Deno.test("sumUsage() adds field by field, and what is told once stays", () => {
  const one = { prompt_tokens: 1, details: { cached_tokens: 2 }, tier: "a" };
  assertEquals(sumUsage(one, { prompt_tokens: 3, details: { cached_tokens: 4, audio: 1 }, tier: "b" }), {
    prompt_tokens: 4,
    details: { cached_tokens: 6, audio: 1 },
    tier: "b",
  });
  assertEquals([sumUsage(undefined, one), sumUsage(one, null)], [one, one]);
});
