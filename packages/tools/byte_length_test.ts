import { assertEquals } from "@std/assert";
import { byteLength } from "./byte_length.ts";

Deno.test("byteLength() counts UTF-8 bytes", () => {
  assertEquals(["", "a", "é", "€", "😀"].map(byteLength), [0, 1, 2, 3, 4]);
});
