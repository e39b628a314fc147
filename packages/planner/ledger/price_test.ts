import { assertAlmostEquals, assertEquals } from "@std/assert";
import { profileNamed, PROFILES, promptCost } from "@tare/planner";

Deno.test("promptCost() takes cached tokens at the reading price and the rest at the writing price", () => {
  const prompt = { promptTokens: 10_000, cachedTokens: 9_000 };
  const cost = (name: string) => promptCost(profileNamed(name), prompt);
  assertAlmostEquals(cost("anthropic-5m"), 900 + 1_250);
  assertAlmostEquals(cost("openai"), 900 + 1_000);
  assertEquals([cost("none"), cost("local")], [10_000, 1_000]);
  for (const profile of Object.values(PROFILES)) {
    assertEquals(promptCost(profile, { promptTokens: 0, cachedTokens: 0 }), 0);
  }
});

Deno.test("promptCost() tells apart what was written for five minutes, for an hour, and not at all", () => {
  const usage = { promptTokens: 1000, cachedTokens: 500, cacheWriteTokens: 300, hourWriteTokens: 100 };
  assertEquals(promptCost(profileNamed("anthropic-5m"), usage), 50 + 200 + 200 * 1.25 + 100 * 2);
  assertEquals(promptCost(profileNamed("openai"), usage), 50 + 500);
});
