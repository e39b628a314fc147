import { assertEquals } from "@std/assert";
import { isRecord } from "./is_record.ts";

Deno.test("isRecord() takes JSON objects and nothing else", () => {
  assertEquals([{}, [], null, "a", 1, undefined].map(isRecord), [true, false, false, false, false, false]);
});
