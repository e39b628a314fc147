import { assertEquals } from "@std/assert";
import { asRecord } from "./json_record.ts";

Deno.test("asRecord() knows a JSON object from everything else", () => {
  const object = { a: 1 };
  assertEquals([object, [], null, undefined, "a", 1].map(asRecord), [object, ...Array(5).fill(undefined)]);
});
