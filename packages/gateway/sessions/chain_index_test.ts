import { assertEquals, assertStrictEquals } from "@std/assert";
import { ChainIndex } from "./chain_index.ts";

Deno.test("ChainIndex finds the longest known beginning, and who came by last", () => {
  const index = new ChainIndex();
  const tip = index.claim(index.find("s", []), ["a", "b", "c"], "one");
  index.claim(index.find("s", ["a"]), ["x"], "two");
  assertStrictEquals(index.find("s", ["a", "b", "c", "d"]), tip);
  const place = (scope: string, keys: string[]) => {
    const { depth, sessionId } = index.find(scope, keys);
    return [depth, sessionId];
  };
  assertEquals(place("s", ["a", "b", "z"]), [2, "one"]);
  assertEquals(place("s", ["a", "x"]), [2, "two"]);
  assertEquals(place("s", ["a", "z"]), [1, "two"]);
  assertEquals(place("t", ["a"]), [0, undefined]);
  assertEquals(index.size, 4);
});

Deno.test("ChainIndex leaves to others what a history that goes shared with them", () => {
  const index = new ChainIndex();
  index.claim(index.find("s", []), ["a", "b", "c"], "one");
  const two = index.claim(index.find("s", ["a", "b"]), ["x"], "two");
  index.release(two, "two");
  const { depth, sessionId } = index.find("s", ["a", "b", "y"]);
  assertEquals([depth, sessionId], [2, "one"]);
});

Deno.test("ChainIndex forgets a history as far as no other goes that way", () => {
  const index = new ChainIndex();
  const one = index.claim(index.find("s", []), ["a", "b", "c"], "one");
  const two = index.claim(index.find("s", ["a"]), ["x"], "two");
  index.release(one, "one");
  assertEquals([index.size, index.find("s", ["a", "b"]).depth], [2, 1]);
  index.release(two, "two");
  assertEquals(index.size, 0);
});
