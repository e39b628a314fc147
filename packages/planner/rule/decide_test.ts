import { assertEquals } from "@std/assert";
import { decide, type Situation } from "./decide.ts";
import { profileNamed } from "../providers.ts";

const warm: Situation = {
  profile: { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 },
  promptTokens: 10_000,
  cachedTokens: 8_000,
  alive: 1,
  allowedPrice: Infinity,
  stopped: false,
};
// Prices: 2,500 for the newest, 6,100 for both.
const removables = (...rents: readonly number[]) => [
  { start: 1_000, tokens: 0, rent: rents[0] ?? 0, idle: true },
  { start: 5_000, tokens: 200, rent: rents[1] ?? 0, idle: true },
];
const outcome = (...args: Parameters<typeof decide>) => {
  const { cut, decision } = decide(...args);
  return [cut?.first, decision?.cause];
};

Deno.test("decide() waits until the rent has paid the price, then takes the largest cut that is paid", () => {
  assertEquals(outcome([], warm), [undefined, undefined]);
  assertEquals(outcome(removables(0, 2_499), warm), [undefined, "wait"]);
  assertEquals(outcome(removables(0, 2_500), warm), [1, "price"]);
  assertEquals(outcome(removables(3_599, 2_500), warm), [1, "price"]);
  assertEquals(outcome(removables(3_600, 2_500), warm), [0, "price"]);
});

Deno.test("decide() reports the cut that comes nearest to being paid, with its numbers", () => {
  assertEquals(decide(removables(0, 2_000), warm).decision, {
    cause: "wait",
    alive: 1,
    tokens: 200,
    brokenTokens: 3_000,
    rent: 2_000,
    price: 2_500,
  });
});

Deno.test("decide() doesn't wait on a cold cache", () => {
  assertEquals(outcome(removables(), { ...warm, alive: 0 }), [0, "price"]);
});

Deno.test("decide() buys nothing beyond the loss limit, reckoning with a warm cache, but takes what is free", () => {
  assertEquals(outcome(removables(9_000, 9_000), { ...warm, allowedPrice: 2_400 }), [
    undefined,
    "loss_limit",
  ]);
  assertEquals(outcome(removables(9_000, 9_000), { ...warm, allowedPrice: 2_600 }), [1, "price"]);
  assertEquals(outcome(removables(0, 1_000), { ...warm, alive: 0.3, allowedPrice: 2_400 }), [
    undefined,
    "loss_limit",
  ]);
  assertEquals(outcome(removables(), { ...warm, alive: 0.05, allowedPrice: -100 }), [1, "price"]);
});

Deno.test("decide() buys nothing on the chance alone that the cache is cold", () => {
  const likely = { ...warm, alive: 0.2 };
  const big = (rent: number) => [{ start: 5_000, tokens: 1_000, rent, idle: true }];
  // Warm it would cost 1,700; at this chance it would pay.
  assertEquals(outcome(big(0), likely), [undefined, "wait"]);
  assertEquals(outcome(big(1), likely), [0, "price"]);
});

Deno.test("decide() buys nothing any more once it has stopped", () => {
  assertEquals(outcome(removables(9_000, 9_000), { ...warm, stopped: true }), [undefined, "stopped"]);
});
