import {
  type CacheLifetimeRecord,
  estimateCacheLifetime,
  NO_CACHE_LIFETIME,
  observeCacheLifetime,
  priorCacheLifetime,
} from "./prefix.ts";
import { NO_TOKENS, observeTokens, scaled, tokenScale } from "./prompt_size.ts";
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";

const profile = profileNamed("anthropic-5m");
const MINUTE = 60_000;

function after(...calls: readonly (readonly [minutes: number, warm: boolean])[]): CacheLifetimeRecord {
  return calls.reduce(
    (record, [minutes, warm]) => observeCacheLifetime(profile, { idleMs: minutes * MINUTE, warm }, record),
    NO_CACHE_LIFETIME,
  );
}
const estimate = (minutes: number, record: CacheLifetimeRecord) =>
  estimateCacheLifetime(profile, minutes * MINUTE, record);

Deno.test("priorCacheLifetime() reads the profile's table, and is 0 after its end", () => {
  assertEquals([0, 1, 2, 45, 500].map((minutes) => priorCacheLifetime(profile, minutes * MINUTE)), [
    0.994,
    0.994,
    0.913,
    0.404,
    0,
  ]);
});

Deno.test("estimateCacheLifetime() starts near the prior", () => {
  for (const minutes of [0.5, 4, 8, 20, 50]) {
    assertAlmostEquals(
      estimate(minutes, NO_CACHE_LIFETIME),
      priorCacheLifetime(profile, minutes * MINUTE),
      0.15,
    );
  }
});

Deno.test("estimateCacheLifetime() expects a prefix up to the end of each entry of the profile's table", () => {
  const table = {
    ttlMs: 9_000,
    cacheLifetime: [1_000, 5_000, 9_000].map((idleMs, at) => ({
      idleMs,
      probability: [0.99, 0.9, 0.5][at]!,
    })),
  };
  const estimate = (idleMs: number) => estimateCacheLifetime(table, idleMs, NO_CACHE_LIFETIME);
  for (const end of [5_000, 9_000]) {
    assertEquals([estimate(end), estimate(end + 1) < estimate(end)], [estimate(end - 1), true]);
  }
  // A hit at the end of an entry supports it, a miss after it refutes it.
  const seen = (idleMs: number, warm: boolean) =>
    estimateCacheLifetime(table, 5_000, observeCacheLifetime(table, { idleMs, warm }, NO_CACHE_LIFETIME));
  assertEquals(seen(5_000, true) > estimate(5_000), true);
  assertEquals(seen(5_000, false) < estimate(5_000), true);
  // Within the first entry only that entry changes.
  const short = observeCacheLifetime(table, { idleMs: 1_000, warm: false }, NO_CACHE_LIFETIME);
  assertAlmostEquals(estimateCacheLifetime(table, 1_000, short), 50 * 0.99 / 51, 1e-9);
  assertEquals(estimateCacheLifetime(table, 5_000, short), estimate(5_000));
});

Deno.test("estimateCacheLifetime() learns a session's time to live from a few calls", () => {
  const hour = after([20, true], [8, true]);
  const minutes = after([8, false], [12, false]);
  assert(estimate(30, hour) > 0.7);
  assert(estimate(8, minutes) < 0.2);
  assert(estimate(4, minutes) > 0.6);
});

Deno.test("estimateCacheLifetime() falls for a provider that loses prefixes before their time", () => {
  assert(
    estimate(3, after([3, false], [3, true], [3, false])) <
      estimate(3, after([3, true], [3, true], [3, true])),
  );
  const losing = after(...Array.from({ length: 50 }, () => [0.1, false] as const));
  assertAlmostEquals(estimate(0.1, losing), 0.497, 0.001);
});

Deno.test("estimateCacheLifetime() is 0 for a profile without a cache, whatever was observed", () => {
  const none = profileNamed("none");
  assertEquals(
    estimateCacheLifetime(none, 0, observeCacheLifetime(none, { idleMs: 0, warm: true }, NO_CACHE_LIFETIME)),
    0,
  );
});

Deno.test("estimateCacheLifetime() starts near a profile that hardly ever loses a prefix", () => {
  const local = profileNamed("local");
  assertAlmostEquals(estimateCacheLifetime(local, 20 * 60 * MINUTE, NO_CACHE_LIFETIME), 0.99, 0.01);
});

function scaleAfter(...calls: readonly (readonly [ours: number, theirs: number])[]) {
  return tokenScale(
    calls.reduce((record, [ours, theirs]) => observeTokens({ ours, theirs }, record), NO_TOKENS),
  );
}

Deno.test("tokenScale() is one to one without observations", () => {
  assertEquals(tokenScale(NO_TOKENS), { perToken: 1, unseen: 0 });
  assertEquals(scaleAfter([1_000, 1_000], [90_000, 90_000]), { perToken: 1, unseen: 0 });
});

Deno.test("tokenScale() attributes a first difference to a prefix, and later ones to the tokenizer", () => {
  assertEquals(scaleAfter([5_000, 45_000]), { perToken: 1, unseen: 40_000 });
  const other = scaleAfter(...[5, 10, 20, 40, 80].map((k) => [1_000 * k, 1_300 * k] as const));
  assertAlmostEquals(other.perToken, 1.3, 0.03);
  assertAlmostEquals(scaled(other, 80_000), 104_000, 1_000);
  const both = scaleAfter(...[5, 10, 20, 40, 80].map((k) => [1_000 * k, 40_000 + 1_300 * k] as const));
  assertAlmostEquals(scaled(both, 80_000), 144_000, 1_000);
});

Deno.test("tokenScale() attributes a lower count to a coarser tokenizer", () => {
  assertEquals(scaleAfter([4_000, 1_000]), { perToken: 0.25, unseen: 0 });
});
