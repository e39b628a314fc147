import { assertEquals } from "@std/assert";
import { GrepRows, searchPattern } from "./search_files_tool.ts";

/** Adds files of lines, of which those with an `x` match. */
function rowsOf(
  files: Readonly<Record<string, readonly string[]>>,
  options: { maxMatches?: number; contextLines?: number } = {},
) {
  const grep = new GrepRows({ pattern: searchPattern("x"), maxMatches: 100, contextLines: 0, ...options });
  for (const [path, lines] of Object.entries(files)) {
    for (const [at, text] of lines.entries()) {
      grep.add({ path, number: at + 1, text, matched: text.includes("x") });
    }
  }
  return { rows: grep.rows, matches: grep.matches, full: grep.full };
}

Deno.test("GrepRows: matches with path and line", () => {
  assertEquals(rowsOf({ f: ["x1", "a", "x2"], g: ["x3"] }), {
    rows: ["f:1: x1", "f:3: x2", "g:1: x3"],
    matches: 3,
    full: false,
  });
});

Deno.test("GrepRows: overlapping context appears once, and groups are separated", () => {
  const f = ["a", "b", "x1", "c", "x2", "d", "e", "f", "x3"];
  assertEquals(rowsOf({ f, g: ["x4", "g"] }, { contextLines: 1 }).rows, [
    "f-2- b",
    "f:3: x1",
    "f-4- c",
    "f:5: x2",
    "f-6- d",
    "--\nf-8- f",
    "f:9: x3",
    "--\ng:1: x4",
    "g-2- g",
  ]);
});

Deno.test("GrepRows: full when a match doesn't fit", () => {
  const f = ["x1", "x2", "a"];
  assertEquals(rowsOf({ f }, { maxMatches: 2 }), { rows: ["f:1: x1", "f:2: x2"], matches: 2, full: false });
  assertEquals(rowsOf({ f }, { maxMatches: 1 }), { rows: ["f:1: x1"], matches: 1, full: true });
  const long = Array.from({ length: 200 }, () => "x".repeat(300));
  const { rows, matches, full } = rowsOf({ f: long });
  assertEquals([rows.length, matches, full], [80, 80, true]);
});

Deno.test("GrepRows: excerpt of a long line around the match", () => {
  const [start, middle, end] = rowsOf({
    f: [`x${"a".repeat(400)}`, `${"a".repeat(500)}x${"b".repeat(500)}`, `${"a".repeat(400)}x`],
  }).rows;
  assertEquals(start, `f:1: x${"a".repeat(299)}…`);
  assertEquals(middle, `f:2: …${"a".repeat(100)}x${"b".repeat(199)}…`);
  assertEquals(end, `f:3: …${"a".repeat(299)}x`);
});
