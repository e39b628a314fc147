import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { searchFilesTool } from "./search_files_tool.ts";
import { abortOnProgress, call, callError, callOk, context, makeWorkspace } from "../fixture_test.ts";

const files = {
  "a.ts": "import x\nconst a = 1;\nexport a\n",
  "src/b.ts": "import y\r\nIMPORT z\r\n",
  "src/c.md": "no code\nimportant",
  "bin": new Uint8Array([0, 1, 2]),
  ".hidden": "import",
  "out/d.ts": "import",
  ".gitignore": "out/\n",
};

Deno.test("search_files returns matching lines with path and number, and counts of skipped files", async () => {
  await using ws = await makeWorkspace(files);
  const search = searchFilesTool(ws.root);
  const notes = "hidden or ignored, skipped: 3; binary, skipped: 1";
  assertEquals(
    await callOk(search, { pattern: "^import\\b" }),
    `matching lines: 2; files with matches: 2; files searched: 3; ${notes}\na.ts:1: import x\nsrc/b.ts:1: import y`,
  );
  assertEquals(
    await callOk(search, { pattern: "import", ignore_case: true, path: "src", glob: "*.ts" }),
    "matching lines: 2; files with matches: 1; files searched: 1\nsrc/b.ts:1: import y\nsrc/b.ts:2: IMPORT z",
  );
  assertEquals(
    await callOk(search, { pattern: "nowhere", path: "src" }),
    "matching lines: 0; files with matches: 0; files searched: 2",
  );
});

Deno.test("search_files lists files, or counts their matching lines", async () => {
  await using ws = await makeWorkspace(files);
  const search = searchFilesTool(ws.root);
  assertEquals(
    await callOk(search, { pattern: "import", output: "files", path: "src" }),
    "files with matches: 2; files searched: 2\nsrc/b.ts\nsrc/c.md",
  );
  assertEquals(
    await callOk(search, { pattern: "a", output: "count", glob: "*.ts" }),
    "matching lines: 2; files with matches: 1; files searched: 2; hidden or ignored, skipped: 3\na.ts:2",
  );
  for (const pattern of ["^", ""]) {
    assertEquals(
      await callOk(search, { pattern, output: "count", path: "src" }),
      "matching lines: 4; files with matches: 2; files searched: 2\nsrc/b.ts:2\nsrc/c.md:2",
    );
  }
});

Deno.test("search_files returns context lines", async () => {
  await using ws = await makeWorkspace({ f: "1\n2\n3 x\n4\n5\n6\n7 x\n" });
  assertEquals(
    await callOk(searchFilesTool(ws.root), { pattern: "x", context_lines: 1 }),
    "matching lines: 2; files with matches: 1; files searched: 1\nf-2- 2\nf:3: 3 x\nf-4- 4\n--\nf-6- 6\nf:7: 7 x",
  );
});

Deno.test("search_files stops at max_results and reports it", async () => {
  await using ws = await makeWorkspace({ a: "x\nx\n", b: "x\n", c: "x\n" });
  const search = searchFilesTool(ws.root);
  assertEquals(
    await callOk(search, { pattern: "x", max_results: 3 }),
    "the first 3 matching lines follow, there are more: narrow it with pattern, path or glob\na:1: x\na:2: x\nb:1: x",
  );
  assertEquals(
    await callOk(search, { pattern: "x", max_results: 4 }),
    "matching lines: 4; files with matches: 3; files searched: 3\na:1: x\na:2: x\nb:1: x\nc:1: x",
  );
  assertEquals(
    await callOk(search, { pattern: "x", output: "count", max_results: 1 }),
    "matching lines: 4; files with matches: 3; files searched: 3; only the first 1 follow, narrow it with pattern, " +
      "path or glob\na:2",
  );
});

Deno.test("search_files searches a file that is named, hidden or not", async () => {
  await using ws = await makeWorkspace(files);
  const search = searchFilesTool(ws.root);
  assertEquals(
    await callOk(search, { pattern: "import", path: ".hidden" }),
    "matching lines: 1; files with matches: 1; files searched: 1\n.hidden:1: import",
  );
  assertEquals(
    await callOk(search, { pattern: "import", path: "out" }),
    "matching lines: 1; files with matches: 1; files searched: 1\nout/d.ts:1: import",
  );
  assertMatch(
    await callError(search, { pattern: "x", path: "bin" }),
    /^Cannot search "bin": it is a binary file/,
  );
});

Deno.test("search_files includes hidden and ignored files on request", async () => {
  await using ws = await makeWorkspace(files);
  assertEquals(
    await callOk(searchFilesTool(ws.root), { pattern: "^import$", output: "files", include_hidden: true }),
    "files with matches: 2; files searched: 6; binary, skipped: 1\n.hidden\nout/d.ts",
  );
});

Deno.test("search_files explains invalid patterns and paths", async () => {
  await using ws = await makeWorkspace(files);
  await Deno.symlink(ws.outside, ws.at("link"));
  const search = searchFilesTool(ws.root);
  assertMatch(
    await callError(search, { pattern: "(?=x)" }),
    /^Cannot search ".": the pattern is not valid: .* no lookahead, no lookbehind, no backreferences/,
  );
  assertEquals(
    await callError(search, { pattern: "x", path: "b.ts" }),
    'Cannot search "b.ts": it does not exist. Did you mean src/b.ts or a.ts?',
  );
  for (const path of ["link", "link/x", "../outside"]) {
    assertStringIncludes(await callError(search, { pattern: "x", path }), "it is outside of the workspace");
  }
});

Deno.test("search_files does not follow links out of the workspace", async () => {
  await using ws = await makeWorkspace({ a: "secret" });
  await Deno.writeTextFile(`${ws.outside}/b`, "secret");
  await Deno.symlink(ws.outside, ws.at("folder"));
  await Deno.symlink(`${ws.outside}/b`, ws.at("file"));
  assertEquals(
    await callOk(searchFilesTool(ws.root), { pattern: "secret", output: "files" }),
    "files with matches: 1; files searched: 1\na",
  );
});

Deno.test("search_files reports progress for every file, and stops when aborted", async () => {
  await using ws = await makeWorkspace({ a: "x", b: "x", c: "x" });
  const search = searchFilesTool(ws.root);
  let signs = 0;
  await callOk(search, { pattern: "x" }, { ...context, progress: () => signs++ });
  assertEquals(signs, 4);
  await assertRejects(() => call(search, { pattern: "x" }, abortOnProgress()), DOMException, "aborted");
});
