import { assertEquals } from "@std/assert";
import { open } from "node:fs/promises";
import { context, makeWorkspace } from "../fixture_test.ts";
import { GrepRows, searchPattern, searchText, type SearchTextOptions } from "./search_files_tool.ts";
import { MAX_LINE_BYTES } from "../files/text_file.ts";

async function search(content: string, source: string, options: Partial<SearchTextOptions> = {}) {
  await using ws = await makeWorkspace({ f: content });
  await using file = await open(ws.at("f"));
  return await searchText(file, { path: "f", pattern: searchPattern(source), context, ...options });
}

Deno.test("searchText() counts matching lines without line ends", async () => {
  const text = "one\r\ntwo\r\n\r\nthree";
  assertEquals(await search(text, "^"), { matches: 4, cutLines: 0 });
  assertEquals(await search(text, "o$"), { matches: 1, cutLines: 0 });
  assertEquals(await search(text, "^$"), { matches: 1, cutLines: 0 });
  assertEquals(await search("", "^"), { matches: 0, cutLines: 0 });
  assertEquals(await search("\n\n", ""), { matches: 2, cutLines: 0 });
});

Deno.test("searchText() stops at the first match, or when the rows are full", async () => {
  assertEquals(await search("a\na\na\n", "a", { firstOnly: true }), { matches: 1, cutLines: 0 });
  const rows = new GrepRows({ pattern: searchPattern("a"), maxMatches: 1, contextLines: 0 });
  assertEquals(await search("a\na\na\n", "a", { rows }), { matches: 2, cutLines: 0 });
  assertEquals([rows.rows, rows.full], [["f:1: a"], true]);
});

Deno.test("searchText() searches the start of a long line, and numbers the next ones correctly", async () => {
  const rows = new GrepRows({ pattern: searchPattern("here"), maxMatches: 9, contextLines: 0 });
  const text = `here${"x".repeat(2 * MAX_LINE_BYTES)}here\nhere\n`;
  assertEquals(await search(text, "here", { rows }), { matches: 2, cutLines: 1 });
  assertEquals(rows.rows.map((row) => row.slice(0, 9)), ["f:1: here", "f:2: here"]);
});
