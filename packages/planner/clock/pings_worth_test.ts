import { assertEquals } from "@std/assert";
import { pingsWorth } from "./clock.ts";

const PRICES = { read: 0.1, write: 1.25, loss: 1 };

Deno.test("pingsWorth() continues as long as the probabilities pay, also over a gap between them", () => {
  assertEquals(pingsWorth([], PRICES), 0);
  // 1.15 · 0.08 is less than a ping, 1.15 · 0.09 is more.
  assertEquals(pingsWorth([0.08], PRICES), 0);
  assertEquals(pingsWorth([0.09], PRICES), 1);
  // The second loses by itself, but leads to a third that gains more.
  assertEquals(pingsWorth([0.5, 0, 0.5], PRICES), 3);
  assertEquals(pingsWorth([0.5, 0, 0.1], PRICES), 1);
});

Deno.test("pingsWorth() returns the recorded limits for recorded pauses of users", () => {
  assertEquals(pingsWorth([0.36, 0.27, 0.17, 0.2, 0.14, 0.19, 0.04, 0.13], PRICES), 6);
  const untold = [0.25, 0.16, 0.08, 0.09, 0.05, 0.07, 0.01, 0.04];
  assertEquals(pingsWorth(untold, PRICES), 2);
  assertEquals(pingsWorth(untold, { ...PRICES, loss: 0.45 }), 1);
  assertEquals(pingsWorth(untold, { ...PRICES, loss: 0.3 }), 0);
});
