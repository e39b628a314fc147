import { assertEquals } from "@std/assert";
import { isColdResume } from "@tare/prune";

const hour = 60 * 60 * 1000;
const nowMs = 1000 * hour;

Deno.test("isColdResume() is true from 24 hours on, or from what the provider's profile says", () => {
  const after = (idleMs: number, rest = {}) => isColdResume({ lastUsedAtMs: nowMs - idleMs, nowMs, ...rest });
  assertEquals([0, 23.9 * hour, 24 * hour, 48 * hour].map((idle) => after(idle)), [false, false, true, true]);
  assertEquals(after(hour, { cacheColdAfterMs: hour }), true);
});

Deno.test("isColdResume() takes a killed long turn, whose last use was not recorded, for warm", () => {
  assertEquals(isColdResume({ lastUsedAtMs: undefined, nowMs }), false);
});

Deno.test("isColdResume() takes a last use in the future, by another machine's clock, for warm", () => {
  assertEquals(isColdResume({ lastUsedAtMs: nowMs + 48 * hour, nowMs }), false);
});
