import { assertAlmostEquals, assertEquals } from "@std/assert";
import { similarityTo } from "./similarity.ts";

Deno.test("similarityTo() is the share of common character pairs", () => {
  assertAlmostEquals(similarityTo("night")("nacht"), 0.25);
  assertEquals(similarityTo("  same ")("same"), 1);
  assertEquals(similarityTo("abc")("xyz"), 0);
  // Pairs count as often as they occur.
  assertAlmostEquals(similarityTo("aaaa")("aa"), 0.5);
});

Deno.test("similarityTo() takes texts without pairs", () => {
  assertEquals(similarityTo("")(""), 1);
  assertEquals(similarityTo("a")("a"), 1);
  assertEquals([similarityTo("a")("b"), similarityTo("a")("ab"), similarityTo("ab")("")], [0, 0, 0]);
});
