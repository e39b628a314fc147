import { estimateWarmth, NO_WARMTH, observeWarmth, priorWarmth, type WarmthRecord } from "./warmth.ts";
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";

const profile = profileNamed("anthropic-5m");
const MINUTE = 60_000;

function after(...calls: readonly (readonly [minutes: number, warm: boolean])[]): WarmthRecord {
  return calls.reduce(
    (record, [minutes, warm]) => observeWarmth(profile, { idleMs: minutes * MINUTE, warm }, record),
    NO_WARMTH,
  );
}
const estimate = (minutes: number, record: WarmthRecord) => estimateWarmth(profile, minutes * MINUTE, record);

Deno.test("priorWarmth() reads the profile's table, and is 0 behind its end", () => {
  assertEquals([0, 1, 2, 45, 500].map((minutes) => priorWarmth(profile, minutes * MINUTE)), [
    0.994,
    0.994,
    0.913,
    0.404,
    0,
  ]);
});

Deno.test("estimateWarmth() starts near the prior", () => {
  for (const minutes of [0.5, 4, 8, 20, 50]) {
    assertAlmostEquals(estimate(minutes, NO_WARMTH), priorWarmth(profile, minutes * MINUTE), 0.15);
  }
});

Deno.test("estimateWarmth() learns a session's time to live from a few calls", () => {
  const hour = after([20, true], [8, true]);
  const minutes = after([8, false], [12, false]);
  assert(estimate(30, hour) > 0.7);
  assert(estimate(8, minutes) < 0.2);
  assert(estimate(4, minutes) > 0.6);
});

Deno.test("estimateWarmth() doubts a provider that loses prefixes before their time", () => {
  assert(
    estimate(3, after([3, false], [3, true], [3, false])) <
      estimate(3, after([3, true], [3, true], [3, true])),
  );
  const losing = after(...Array.from({ length: 50 }, () => [0.1, false] as const));
  assertAlmostEquals(estimate(0.1, losing), 0.497, 0.001);
});

Deno.test("estimateWarmth() is 0 for a profile without a cache, whatever was seen", () => {
  const none = profileNamed("none");
  assertEquals(estimateWarmth(none, 0, observeWarmth(none, { idleMs: 0, warm: true }, NO_WARMTH)), 0);
});

Deno.test("estimateWarmth() starts near a profile that hardly ever loses a prefix", () => {
  const local = profileNamed("local");
  assertAlmostEquals(estimateWarmth(local, 20 * 60 * MINUTE, NO_WARMTH), 0.99, 0.01);
});
