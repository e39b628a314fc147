import { assertEquals } from "@std/assert";
import { countedPaths, foundLines, listedEntries, readRange, readResult } from "./results.ts";

const ref = "0123456789abcdef";

Deno.test("readResult() distinguishes complete, partial and evicted results and errors", () => {
  for (
    const [text, seen, missing] of [
      ["lines 1-2 of 2\na\nb", "whole"],
      ["lines 1-2 of 9 (cut to fit: continue with start_line 3)\na\nb", "part"],
      [
        "files that match *.ts: 1200; only the first 1000 follow, narrow it with path, depth or glob\na.ts",
        "part",
      ],
      [
        "the first 200 matching lines follow, there are more: narrow it with pattern, path or glob\na:1: x",
        "part",
      ],
      [`a\n[elided: middle of shell result, 99999 bytes; recall with ref ${ref}]\nz`, "part", ref],
      [`[elided: middle of shell result, 99999 bytes; recall with ref ${ref}]`, "none", ref],
      [`[elided: read_file result, 48213 bytes; run again if needed; ref ${ref}]`, "none", ref],
      ["a\nb\n[characters 0 to 4 of 9, lines 1 to 2 of 5; continue with offset 4]", "part"],
      ['Cannot read "a.ts": it does not exist.', "none"],
      ["", "none"],
      ["lines 1-1 of 1\nThey continue with it.", "whole"],
    ] as const
  ) {
    assertEquals(readResult(text), { text, seen, ...(missing && { ref: missing }) });
  }
});

Deno.test("listedEntries() returns folders and files without headers and sizes", () => {
  assertEquals(
    listedEntries("entries in .: 3; hidden or ignored, skipped: 4\nsrc/\nREADME.md\t120\nlink.ts\tlink"),
    {
      folders: ["src"],
      files: ["README.md", "link.ts"],
    },
  );
  assertEquals(listedEntries("- src/\n- a b.md (120 bytes)\n\nmain.c   7 kB"), {
    folders: ["src"],
    files: ["a b.md", "main.c"],
  });
  assertEquals(listedEntries(""), { folders: [], files: [] });
});

Deno.test("countedPaths() parses counts without headers", () => {
  const text =
    "matching lines: 15; files with matches: 2; files searched: 2\nsrc/a.ts:12\nsrc/b c.ts: 3\nMakefile:1";
  assertEquals([...countedPaths(text)], [["src/a.ts", 12], ["src/b c.ts", 3], ["Makefile", 1]]);
  assertEquals([...countedPaths("matching lines: 15")], []);
});

Deno.test("foundLines() parses search results", () => {
  assertEquals(foundLines("matching lines: 1; files: 1\nsrc/a.ts:12:   const a = 1: 2;\nsrc/a.ts-13- no"), [
    { path: "src/a.ts", line: 12, text: "const a = 1: 2;" },
  ]);
});

Deno.test("readRange() parses a range of a file", () => {
  assertEquals(readRange("lines 3-4 of 9 (no newline at the end)\nc\nd"), {
    from: 3,
    to: 4,
    total: 9,
    lines: ["c", "d"],
  });
  assertEquals(readRange("something else"), undefined);
});
