import { assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { PrefixCache } from "@tare/planner/internal/parts";

const rules = { ...profileNamed("anthropic-5m"), minTokens: 0, blockTokens: 1, ttlMs: 1_000 };
const units = (...names: readonly string[]) => names.map((hash) => ({ hash, tokens: 10 }));

Deno.test("PrefixCache serves a prefix for its time to live, and refreshes it with each use", () => {
  const cache = new PrefixCache(rules);
  cache.store(units("a", "b", "c"), 0);
  assertEquals([cache.held(units("a", "b", "x"), 1_000), cache.held(units("a", "b"), 1_001)], [20, 0]);
  cache.store(units("a", "b"), 800);
  assertEquals([cache.held(units("a", "b", "c"), 1_000), cache.held(units("a", "b", "c"), 1_800)], [30, 20]);
  // An earlier request that is recorded later makes nothing older.
  cache.store(units("a"), 100);
  assertEquals([cache.held(units("a", "b"), 1_800), cache.held(units("a", "b"), 1_801)], [20, 0]);
});

Deno.test("PrefixCache stores and serves prefixes up to their cache breakpoints", () => {
  const cache = new PrefixCache(rules);
  cache.store(units("a", "b", "c", "d"), 0, [1, 3]);
  assertEquals(cache.held(units("a", "b", "c", "d"), 0), 30);
  assertEquals([1, 2, 3, 4].map((end) => cache.held(units("a", "b", "c", "d"), 0, [end])), [10, 10, 30, 30]);
  assertEquals([cache.held(units("a", "b"), 0), cache.held(units("x"), 0), cache.held([], 0)], [10, 0, 0]);
  assertEquals(cache.lookup(units("a", "b", "c"), 0), 29);
  const none = new PrefixCache(profileNamed("none"));
  none.store(units("a"), 0);
  assertEquals(none.held(units("a"), 0), 0);
});

Deno.test("PrefixCache evicts the least recently used half when full, and everything of equal age", () => {
  const cache = new PrefixCache(rules, { maxUnits: 4 });
  for (const [at, name] of ["a", "b", "c", "d"].entries()) cache.store(units(name), at);
  const held = () => ["a", "b", "c", "d", "e", "f"].filter((name) => cache.held(units(name), 10) > 0);
  assertEquals(held(), ["a", "b", "c", "d"]);
  cache.store(units("e"), 4);
  // The root is the sixth unit, older than all.
  assertEquals(held(), ["c", "d", "e"]);
  cache.store(units("f"), 5);
  assertEquals(held(), ["c", "d", "e", "f"]);
  const mixed = new PrefixCache(rules, { maxUnits: 4 });
  for (const [at, name] of [[3, "a"], [0, "b"], [4, "c"], [1, "d"], [2, "e"]] as const) {
    mixed.store(units(name), at);
  }
  assertEquals(["a", "b", "c", "d", "e"].filter((name) => mixed.held(units(name), 10) > 0), ["a", "c", "e"]);
  const same = new PrefixCache(rules, { maxUnits: 2 });
  same.store(units("a", "b", "c"), 0);
  assertEquals(same.held(units("a", "b", "c"), 0), 0);
});
