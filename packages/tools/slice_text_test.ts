import { assertEquals } from "@std/assert";
import { sliceText } from "./slice_text.ts";

Deno.test("sliceText() never halves a character", () => {
  assertEquals(sliceText("a😀b", 0, 2), "a");
  assertEquals(sliceText("a😀b", 2, 4), "b");
  assertEquals(sliceText("a😀b", 0, 3), "a😀");
  assertEquals(sliceText("a😀b", 1, 9), "😀b");
  assertEquals(sliceText("plain", 1, 3), "la");
});
