import { assertAlmostEquals, assertEquals } from "@std/assert";
import { type Price, profileNamed } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { callCost, promptCost } from "@tare/planner/internal/parts";
import { explainUncached } from "./ledger.ts";

const story = {
  unmarkedTokens: 0,
  uncachedTokens: 1_000,
  change: "none",
  brokenTokens: 0,
  missingTokens: 0,
  late: false,
} as const;

Deno.test("explainUncached() attributes each uncached token to one cause", () => {
  assertEquals(explainUncached({ ...story, change: "first_call" }), [{ cause: "first_call", tokens: 1_000 }]);
  assertEquals(explainUncached({ ...story, change: "model_changed", brokenTokens: 500 }), [
    { cause: "model_changed", tokens: 1_000 },
  ]);
  assertEquals(explainUncached(story), [{ cause: "new", tokens: 1_000 }]);
  assertEquals(explainUncached({ ...story, brokenTokens: 600 }), [
    { cause: "own_rewrite", tokens: 600 },
    { cause: "new", tokens: 400 },
  ]);
  assertEquals(explainUncached({ ...story, change: "tools_changed", brokenTokens: 2_000 }), [
    { cause: "tools_changed", tokens: 1_000 },
  ]);
  assertEquals(explainUncached({ ...story, missingTokens: 900, brokenTokens: 50, late: true }), [
    { cause: "expired", tokens: 900 },
    { cause: "own_rewrite", tokens: 50 },
    { cause: "new", tokens: 50 },
  ]);
  assertEquals(explainUncached({ ...story, missingTokens: 300, uncachedTokens: 200 }), [
    { cause: "provider_lost", tokens: 200 },
  ]);
});

Deno.test("promptCost() uses the read price for cached tokens and the write price for the rest", () => {
  const prompt = { promptTokens: 10_000, cachedTokens: 9_000 };
  const cost = (name: string) => promptCost(profileNamed(name), prompt);
  assertAlmostEquals(cost("anthropic-5m"), 900 + 1_250);
  assertAlmostEquals(cost("openai"), 900 + 1_000);
  assertEquals([cost("none"), cost("local")], [10_000, 1_000]);
  for (const profile of Object.values(PROFILES)) {
    assertEquals(promptCost(profile, { promptTokens: 0, cachedTokens: 0 }), 0);
  }
});

Deno.test("promptCost() distinguishes writes for five minutes, for an hour, and none", () => {
  const usage = { promptTokens: 1000, cachedTokens: 500, cacheWriteTokens: 300, hourWriteTokens: 100 };
  assertEquals(promptCost(profileNamed("anthropic-5m"), usage), 50 + 200 + 200 * 1.25 + 100 * 2);
  assertEquals(promptCost(profileNamed("openai"), usage), 50 + 500);
});

const USAGE = { promptTokens: 1_000_000, cachedTokens: 500_000, outputTokens: 100_000 };

Deno.test("callCost() returns no money without a price, and cost units of the prompt only", () => {
  assertEquals(callCost(USAGE, { profile: profileNamed("openai") }), { costUnits: 550_000 });
});

Deno.test("callCost() prices reads, both kinds of writes, and other tokens separately", () => {
  const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 };
  const usd = (more: object, own: Price = price) =>
    callCost({ ...USAGE, ...more }, { profile: profileNamed("anthropic-5m"), price: own }).usd!;
  assertAlmostEquals(
    usd({ cacheWriteTokens: 300_000, hourWriteTokens: 100_000 }),
    0.15 + 0.6 + 0.75 + 0.6 + 1.5,
  );
  assertAlmostEquals(usd({ cacheWriteTokens: 300_000 }), 0.15 + 0.6 + 1.125 + 1.5);
  assertAlmostEquals(usd({}), 0.15 + 1.875 + 1.5);
  assertAlmostEquals(usd({}, { input: 3, output: 15 }), 3 + 1.5);
  assertAlmostEquals(
    usd({}, { input: 3, output: 15, long: { aboveTokens: 999_999, input: 2, output: 3 } }),
    6 + 4.5,
  );
  assertAlmostEquals(
    usd({}, { input: 3, output: 15, long: { aboveTokens: 1e6, input: 2, output: 3 } }),
    3 + 1.5,
  );
});
