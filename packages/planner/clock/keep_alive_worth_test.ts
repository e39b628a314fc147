import { assertEquals } from "@std/assert";
import { keepAliveWorth } from "./clock.ts";

const PRICES = { read: 0.1, write: 1.25, loss: 1 };

Deno.test("keepAliveWorth() continues as long as the probabilities pay, also over a gap between them", () => {
  assertEquals(keepAliveWorth([], PRICES), 0);
  // 1.15 · 0.08 is less than a ping, 1.15 · 0.09 is more.
  assertEquals(keepAliveWorth([0.08], PRICES), 0);
  assertEquals(keepAliveWorth([0.09], PRICES), 1);
  // The second loses by itself, but leads to a third that gains more.
  assertEquals(keepAliveWorth([0.5, 0, 0.5], PRICES), 3);
  assertEquals(keepAliveWorth([0.5, 0, 0.1], PRICES), 1);
});

Deno.test("keepAliveWorth() returns the recorded limits for recorded pauses of users", () => {
  assertEquals(keepAliveWorth([0.36, 0.27, 0.17, 0.2, 0.14, 0.19, 0.04, 0.13], PRICES), 6);
  const untold = [0.25, 0.16, 0.08, 0.09, 0.05, 0.07, 0.01, 0.04];
  assertEquals(keepAliveWorth(untold, PRICES), 2);
  assertEquals(keepAliveWorth(untold, { ...PRICES, loss: 0.45 }), 1);
  assertEquals(keepAliveWorth(untold, { ...PRICES, loss: 0.3 }), 0);
});
