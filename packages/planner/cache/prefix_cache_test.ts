import { assertEquals } from "@std/assert";
import { PrefixCache, type Profile, profileNamed, type PromptUnit } from "@tare/planner";

const profile: Profile = { ...profileNamed("anthropic-5m"), minTokens: 100, ttlMs: 1000 };

function units(text: string, tokens = 100): PromptUnit[] {
  return Array.from(text, (hash) => ({ hash, tokens }));
}

Deno.test("PrefixCache serves the longest prefix of any prompt that it was sent", () => {
  const cache = new PrefixCache(profile);
  assertEquals(cache.lookup(units("ab"), 0), 0);
  cache.store(units("abc"), 0);
  cache.store(units("axyz"), 0);
  assertEquals(["abcd", "abd", "axyzb", "ax", "b", ""].map((text) => cache.lookup(units(text), 0)), [
    300,
    200,
    400,
    199, // all but the last token, which is always processed
    0,
    0,
  ]);
});

Deno.test("PrefixCache holds a prompt up to the ends that it is told, and serves one up to its own", () => {
  const cache = new PrefixCache(profile);
  cache.store(units("abcdef"), 0, [2, 4]);
  const held = (text: string, ends?: readonly number[]) => cache.held(units(text), 0, ends);
  assertEquals([held("abcdef"), held("abcx"), held("ax")], [400, 200, 0]);
  assertEquals([[6], [3], [1], [], [1, 5]].map((ends) => held("abcdef", ends)), [400, 200, 0, 0, 400]);
  assertEquals(cache.lookup(units("abcd"), 0), 399);
  assertEquals(cache.lookup(units("abcd"), 0, [3]), 200);
});

Deno.test("PrefixCache keeps a prefix for its time to live after the last use", () => {
  const cache = new PrefixCache(profile);
  cache.store(units("abc"), 0);
  cache.store(units("abd"), 900); // uses "ab"
  assertEquals([1000, 1001, 1900, 1901].map((now) => cache.lookup(units("abcx"), now)), [300, 200, 200, 0]);
});

Deno.test("PrefixCache rounds down to blocks and serves nothing below the smallest size", () => {
  const cache = new PrefixCache({ ...profile, minTokens: 1024, blockTokens: 128 });
  cache.store(units("0123456789abcdef"), 0);
  assertEquals(cache.lookup(units("0123456789x"), 0), 0);
  assertEquals(cache.lookup(units("0123456789ax"), 0), 1024);
  assertEquals(cache.lookup(units("0123456789abcd"), 0), 1280);
});

Deno.test("PrefixCache serves nothing with the profile none", () => {
  const cache = new PrefixCache(profileNamed("none"));
  cache.store(units("ab", 100_000), 0);
  assertEquals(cache.lookup(units("abc", 100_000), 0), 0);
});

Deno.test("PrefixCache forgets what was used longest ago when it is full", () => {
  const cache = new PrefixCache(profile, { maxUnits: 6 });
  cache.store(units("abc"), 0);
  cache.store(units("de"), 1);
  cache.store(units("abfg"), 2);
  assertEquals(["abcx", "dex", "abfgx"].map((text) => cache.lookup(units(text), 2)), [200, 0, 400]);
});
