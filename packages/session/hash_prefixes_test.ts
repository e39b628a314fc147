import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { hashPrefixes } from "@tare/session/internal";

Deno.test("hashPrefixes() returns a hash of each start of a history, whatever follows it", () => {
  const [one, two, three, ...more] = hashPrefixes(["a", "b", "c"]);
  assertEquals(more, []);
  assertMatch(one!, /^[\w-]{43}$/);
  assertEquals(hashPrefixes(["a", "b", "d"]).slice(0, 2), [one, two]);
  assertEquals(hashPrefixes(["a", "b", "c"], 1), [two, three]);
  assertNotEquals(hashPrefixes(["ab"]), hashPrefixes(["a", "b"], 1));
});
