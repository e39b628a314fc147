import { stripVTControlCharacters } from "node:util";
import { assertEquals } from "@std/assert";
import stringWidth from "string-width";
import fc from "../../../tests/cases.ts";
import { alignedRows, wordWrap, wrappedRows } from "./word_wrap.ts";

Deno.test("wordWrap() ends styles at a break, and continues them after it", () => {
  assertEquals(
    wrappedRows("a \x1b[1mbold word\x1b[22m", { columns: () => 8, hang: "  " }),
    ["a \x1b[1mbold\x1b[0m", "  \x1b[1mword\x1b[22m"],
  );
  assertEquals(wrappedRows("  a\tlongword b", { columns: () => 6, start: "│ " }), [
    "│   a",
    "│ long",
    "│ word",
    "│ b",
  ]);
});

Deno.test("alignedRows() aligns rows below the second column", () => {
  assertEquals(alignedRows("/new   start another session", () => 20), [
    "/new   start another",
    "       session",
  ]);
});

Deno.test("wordWrap().end() ends the line, so that later text has the whole width", () => {
  const rows: string[] = [];
  const wrap = wordWrap((text) => void rows.push(text), { columns: () => 10 });
  for (const text of ["one two", "three four"]) {
    wrap.write(text);
    wrap.end();
  }
  assertEquals(rows, ["one", " two", "three", " four"]);
});

Deno.test("property: wordWrap() fits any text into any width, keeps its words, and ignores how it arrives", () => {
  const word = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 12 }),
    fc.constantFrom("日本語", "😀", "\x1b[1mb\x1b[22m"),
  )
    .map((text) => text.replaceAll(/[\p{Cc}\p{Z}]/gu, (char) => char === "\x1b" ? char : "x"));
  const texts = fc.array(fc.oneof(word, fc.constantFrom(" ", "  ", "\n")));
  fc.assert(fc.property(texts, fc.integer({ min: 8, max: 60 }), (pieces, columns) => {
    const all = (given: readonly string[]) => {
      let text = "";
      const wrap = wordWrap((piece) => text += piece, { columns: () => columns });
      given.forEach(wrap.write);
      wrap.end();
      return text;
    };
    const text = all(pieces);
    assertEquals(all([pieces.join("")]), text);
    for (const row of text.split("\n")) assertEquals(stringWidth(row) <= columns, true, JSON.stringify(row));
    const letters = (text: string) => stripVTControlCharacters(text).replaceAll(/\s/g, "");
    assertEquals(letters(text), letters(pieces.join("")));
  }));
});
