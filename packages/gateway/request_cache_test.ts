import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { JsonCache } from "./request_cache.ts";

const encode = (text: string) => new TextEncoder().encode(text);

Deno.test("JsonCache parses the same bytes once, and evicts the least recently used", () => {
  let reads = 0;
  const known = new JsonCache<{ value: unknown }>({ maxBytes: 1_220 });
  const read = (text: string, kind = "k") =>
    known.read(encode(text), { start: 0, end: text.length, kind, read: (value) => (reads++, { value }) });
  const first = read('"a"');
  assertStrictEquals(read('"a"').value, first.value);
  assertEquals([first.value, reads], [{ value: "a" }, 1]);
  read('"b"');
  read('"a"');
  read('"c"');
  assertStrictEquals(read('"a"').value, first.value);
  assertEquals(reads, 3);
  read('"b"');
  assertEquals(reads, 4);
  assertThrows(() => read("{"), SyntaxError);
});
