import { assertEquals } from "@std/assert";
import { profileNamed } from "../providers.ts";
import { weighCuts } from "./weigh_cuts.ts";

const removables = [
  { start: 1_000, tokens: 500, rent: 40, idle: true },
  { start: 5_000, tokens: 200, rent: 10, idle: true },
];
const prompt = { promptTokens: 10_000, cachedTokens: 8_000 };

Deno.test("weighCuts() prices each cut, the newest first, by what the cache no longer serves and what leaves", () => {
  const profile = { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 };
  assertEquals(weighCuts(removables, { ...prompt, profile, alive: 1 }), [
    { first: 1, tokens: 200, brokenTokens: 3_000, rent: 10, price: 0.9 * 3_000 - 200 },
    { first: 0, tokens: 700, brokenTokens: 7_000, rent: 50, price: 0.9 * 7_000 - 700 },
  ]);
});

Deno.test("weighCuts() finds every cut worth it without a cache, or with a cold one", () => {
  for (const [name, alive] of [["none", 1], ["anthropic-5m", 0]] as const) {
    const profile = profileNamed(name);
    const prices = weighCuts(removables, { ...prompt, profile, alive }).map(({ price }) => price);
    assertEquals(prices, [-200 * profile.write, -700 * profile.write]);
  }
});

Deno.test("weighCuts() counts a prefix as gone that a cut leaves too short to be cached", () => {
  const profile = { ...profileNamed("openai"), minTokens: 2_000, blockTokens: 1 };
  const [, whole] = weighCuts(removables, { ...prompt, profile, alive: 1 });
  assertEquals(whole?.brokenTokens, 8_000);
});

Deno.test("weighCuts() starts no cut at what is still wanted, but takes it along", () => {
  const profile = { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 };
  const [first, second] = removables;
  const cuts = (...those: Parameters<typeof weighCuts>[0]) =>
    weighCuts(those, { ...prompt, profile, alive: 1 }).map(({ first, tokens }) => [first, tokens]);
  assertEquals(cuts(first!, { ...second!, idle: false }), [[0, 700]]);
  assertEquals(cuts({ ...first!, idle: false }, second!), [[1, 200]]);
});
