import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { splitText } from "./split_text.ts";

Deno.test("splitText() cuts a text into few pieces", () => {
  assertEquals(splitText(""), []);
  assertEquals(splitText("short"), ["short"]);
  assertEquals(splitText("a".repeat(50)).map((piece) => piece.length), [24, 24, 2]);
  assertEquals(splitText("a".repeat(100_000)).length, 64);
});

Deno.test("splitText() loses nothing and splits no surrogate pair", () => {
  assertEquals(splitText("a".repeat(23) + "😀b"), ["a".repeat(23) + "😀", "b"]);
  fc.assert(fc.property(fc.string({ unit: "grapheme", maxLength: 500 }), (text) => {
    const pieces = splitText(text);
    assertEquals(pieces.join(""), text);
    assert(pieces.every((piece) => piece.isWellFormed()));
  }));
});
