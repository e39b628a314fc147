import { assertEquals } from "@std/assert";
import { asRecord, isRecord } from "@tare/wire";

Deno.test("isRecord() and asRecord() know a JSON object from everything else", () => {
  const object = { a: 1 };
  const values = [object, [], null, undefined, "a", 1];
  assertEquals(values.map(isRecord), [true, false, false, false, false, false]);
  assertEquals(values.map(asRecord), [object, ...Array(5).fill(undefined)]);
});
