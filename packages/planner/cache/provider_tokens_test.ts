import { assertAlmostEquals, assertEquals } from "@std/assert";
import { NO_TOKENS, observeTokens, scaled, tokenScale } from "./provider_tokens.ts";

function after(...calls: readonly (readonly [ours: number, theirs: number])[]) {
  return tokenScale(
    calls.reduce((record, [ours, theirs]) => observeTokens({ ours, theirs }, record), NO_TOKENS),
  );
}

Deno.test("tokenScale() takes our count for the provider's until something was seen", () => {
  assertEquals(tokenScale(NO_TOKENS), { perToken: 1, unseen: 0 });
  assertEquals(after([1_000, 1_000], [90_000, 90_000]), { perToken: 1, unseen: 0 });
});

Deno.test("tokenScale() takes what a first call shows more for a prefix, and later calls tell a tokenizer from it", () => {
  assertEquals(after([5_000, 45_000]), { perToken: 1, unseen: 40_000 });
  const other = after(...[5, 10, 20, 40, 80].map((k) => [1_000 * k, 1_300 * k] as const));
  assertAlmostEquals(other.perToken, 1.3, 0.03);
  assertAlmostEquals(scaled(other, 80_000), 104_000, 1_000);
  const both = after(...[5, 10, 20, 40, 80].map((k) => [1_000 * k, 40_000 + 1_300 * k] as const));
  assertAlmostEquals(scaled(both, 80_000), 144_000, 1_000);
});

Deno.test("tokenScale() takes a provider that counts less for one with a coarser tokenizer", () => {
  assertEquals(after([4_000, 1_000]), { perToken: 0.25, unseen: 0 });
});
