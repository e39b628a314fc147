import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { readFileTool } from "./read_file_tool.ts";
import { abortOnProgress, call, callError, callOk, makeWorkspace } from "../fixture_test.ts";
import { needs, NOT_ROOT } from "../../../tests/needs.ts";

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at}`).join("\n");

Deno.test("read_file returns lines unchanged, after their range and the file's length", async () => {
  await using ws = await makeWorkspace({ f: `${numbered(1, 9)}\n`, empty: "", open: "a\nb" });
  const read = readFileTool(ws.root);
  assertEquals(await callOk(read, { path: "f" }), `lines 1-9 of 9\n${numbered(1, 9)}`);
  assertEquals(
    await callOk(read, { path: "f", start_line: 3, end_line: 4 }),
    "lines 3-4 of 9\nline 3\nline 4",
  );
  assertEquals(await callOk(read, { path: "f", start_line: 9 }), "lines 9-9 of 9\nline 9");
  assertEquals(await callOk(read, { path: "f", end_line: 99 }), `lines 1-9 of 9\n${numbered(1, 9)}`);
  assertEquals(await callOk(read, { path: "open" }), "lines 1-2 of 2 (no newline at the end)\na\nb");
  assertEquals(await callOk(read, { path: "open", end_line: 1 }), "lines 1-1 of 2\na");
  assertEquals(await callOk(read, { path: "empty" }), "lines 0-0 of 0");
  assertEquals(await callOk(read, { path: ws.at("open"), end_line: 1 }), "lines 1-1 of 2\na");
});

Deno.test("read_file cuts a long file by lines and by bytes, and states how to continue", async () => {
  await using ws = await makeWorkspace({
    many: `${numbered(1, 2500)}\n`,
    wide: `${"x".repeat(999)}\n`.repeat(100),
  });
  const read = readFileTool(ws.root);
  assertEquals(
    await callOk(read, { path: "many" }),
    `lines 1-1000 of 2500 (cut to fit: continue with start_line 1001)\n${numbered(1, 1000)}`,
  );
  assertEquals(
    await callOk(read, { path: "many", start_line: 2001 }),
    `lines 2001-2500 of 2500\n${numbered(2001, 2500)}`,
  );
  const wide = await callOk(read, { path: "wide", start_line: 11, end_line: 90 });
  assertEquals(wide.split("\n")[0], "lines 11-34 of 100 (cut to fit: continue with start_line 35)");
  assertEquals(wide.split("\n").length, 25);
});

Deno.test("read_file cuts long lines, between characters", async () => {
  await using ws = await makeWorkspace({ f: `${"x".repeat(1999)}😀é\nnext\n`, huge: "y".repeat(1_000_000) });
  const read = readFileTool(ws.root);
  assertEquals(
    await callOk(read, { path: "f" }),
    `lines 1-2 of 2\n${"x".repeat(1999)}… [line cut: 6 more bytes]\nnext`,
  );
  assertEquals(
    await callOk(read, { path: "huge" }),
    `lines 1-1 of 1\n${"y".repeat(2000)}… [line cut: 998000 more bytes]`,
  );
});

Deno.test("read_file reports CRLF, invalid UTF-8 and NUL", async () => {
  const late = new TextEncoder().encode(`${"a\n".repeat(5000)}b\0c\n`);
  await using ws = await makeWorkspace({
    crlf: "a\r\nb\r\n",
    mixed: "a\r\nb\n",
    latin1: new Uint8Array([0x63, 0x61, 0x66, 0xE9, 0x0A]),
    late,
    bom: "\uFEFFa\n",
  });
  const read = readFileTool(ws.root);
  assertEquals(await callOk(read, { path: "crlf" }), "lines 1-2 of 2 (CRLF line ends)\na\nb");
  assertEquals(await callOk(read, { path: "mixed" }), "lines 1-2 of 2\na\r\nb");
  assertEquals(
    await callOk(read, { path: "latin1" }),
    "lines 1-1 of 1 (invalid UTF-8 or NUL shown as \uFFFD)\ncaf\uFFFD",
  );
  assertEquals(
    await callOk(read, { path: "late", start_line: 5001 }),
    "lines 5001-5001 of 5001 (invalid UTF-8 or NUL shown as \uFFFD)\nb\uFFFDc",
  );
  assertEquals(
    await callOk(read, { path: "late", start_line: 5000, end_line: 5000 }),
    "lines 5000-5000 of 5001\na",
  );
  assertEquals(await callOk(read, { path: "bom" }), "lines 1-1 of 1\na");
});

Deno.test("read_file reads several files and ranges in one call, each with its own error", async () => {
  await using ws = await makeWorkspace({ "a.ts": "a1\na2\na3\n", "b.ts": "b\r\n", "open": "o" });
  const read = readFileTool(ws.root);
  const also = [
    { path: "b.ts" },
    { path: "c.ts" },
    { path: "a.ts", start_line: 3 },
    { path: "../outside/x" },
    { path: "a.ts", start_line: 0 },
    { path: "open" },
  ];
  assertEquals((await callOk(read, { path: "a.ts", end_line: 2, also })).split("\n"), [
    "==> a.ts <== lines 1-2 of 3",
    "a1",
    "a2",
    "==> b.ts <== lines 1-1 of 1 (CRLF line ends)",
    "b",
    '==> c.ts <== Cannot read "c.ts": it does not exist. Did you mean a.ts or b.ts?',
    "==> a.ts <== lines 3-3 of 3",
    "a3",
    '==> ../outside/x <== Cannot read "../outside/x": it is outside of the workspace. Pass a path relative to ' +
    "the workspace.",
    '==> a.ts <== Cannot read "a.ts": start_line 0 must be at least 1.',
    "==> open <== lines 1-1 of 1 (no newline at the end)",
    "o",
  ]);
  assertEquals(await callOk(read, { path: "a.ts", also: [] }), "lines 1-3 of 3\na1\na2\na3");
  assertEquals((await callError(read, { path: "x", also: [{ path: ".." }] })).split("\n"), [
    '==> x <== Cannot read "x": it does not exist. Look for it with list_files.',
    '==> .. <== Cannot read "..": it is outside of the workspace. Pass a path relative to the workspace.',
  ]);
});

Deno.test("read_file shares the limits of a result among several files", async () => {
  const wide = `${"x".repeat(99)}\n`;
  await using ws = await makeWorkspace({
    small: wide.repeat(10),
    large: wide.repeat(300),
    larger: wide.repeat(900),
    many: `${numbered(1, 2500)}\n`,
    huge: `${"y".repeat(1_999)}\n`.repeat(9),
  });
  const read = readFileTool(ws.root);
  const heads = async (...paths: string[]) => {
    const [path, ...also] = paths;
    const text = await callOk(read, { path, also: also.map((path) => ({ path })) });
    assert(text.length < 25 * 1024);
    return text.split("\n").filter((line) => line.startsWith("==> "));
  };
  assertEquals(await heads("larger", "small", "large"), [
    "==> larger <== lines 1-117 of 900 (cut to fit: continue with start_line 118)",
    "==> small <== lines 1-10 of 10",
    "==> large <== lines 1-117 of 300 (cut to fit: continue with start_line 118)",
  ]);
  assertEquals(await heads("many", "small", "many"), [
    "==> many <== lines 1-495 of 2500 (cut to fit: continue with start_line 496)",
    "==> small <== lines 1-10 of 10",
    "==> many <== lines 1-495 of 2500 (cut to fit: continue with start_line 496)",
  ]);
  // A line that doesn't fit into a share is read in another call.
  const [first, ...others] = await heads(...Array.from({ length: 16 }, () => "huge"));
  assertEquals(first, "==> huge <== lines 0-0 of 9 (cut to fit: continue with start_line 1)");
  assertEquals(new Set(others), new Set([first]));
  assertMatch(await callOk(read, { path: "huge" }), /^lines 1-9 of 9\n/);
});

Deno.test("read_file explains files that it can't return", async () => {
  await using ws = await makeWorkspace({ "src/main.ts": "a\nb\n", "bin": new Uint8Array([1, 0, 2]) });
  await new Deno.Command("mkfifo", { args: [ws.at("pipe")] }).output();
  const read = readFileTool(ws.root);
  assertEquals(
    await callError(read, { path: "main.ts" }),
    'Cannot read "main.ts": it does not exist. Did you mean src/main.ts?',
  );
  assertEquals(
    await callError(read, { path: "src" }),
    'Cannot read "src": it is a folder. See what is in it with list_files.',
  );
  assertMatch(await callError(read, { path: "bin" }), /^Cannot read "bin": it is a binary file, .* shell /);
  assertMatch(await callError(read, { path: "pipe" }), /it is a pipe/);
  assertMatch(await callError(read, { path: "src/main.ts/x" }), /a part of its path is a file, not a folder/);
  assertMatch(
    await callError(read, { path: "x".repeat(300) }),
    /its name is longer than the file system allows/,
  );
  assertEquals(
    await callError(read, { path: "src/main.ts", start_line: 3 }),
    'Cannot read "src/main.ts": start_line 3 is after its last line, 2.',
  );
  assertEquals(
    await callError(read, { path: "src/main.ts", start_line: 2, end_line: 1 }),
    'Cannot read "src/main.ts": end_line 1 comes before start_line 2.',
  );
});

Deno.test("read_file stays in the workspace, and reveals nothing outside", async () => {
  await using ws = await makeWorkspace({ "src/": "" });
  await Deno.writeTextFile(`${ws.outside}/secret`, "secret");
  await Deno.symlink(`${ws.outside}/secret`, ws.at("file-link"));
  await Deno.symlink(ws.outside, ws.at("src/folder-link"));
  const read = readFileTool(ws.root);
  for (const name of ["secret", "missing"]) {
    for (const path of [`../outside/${name}`, `${ws.outside}/${name}`, `src/folder-link/${name}`]) {
      assertEquals(
        await callError(read, { path }),
        `Cannot read ${
          JSON.stringify(path)
        }: it is outside of the workspace. Pass a path relative to the workspace.`,
      );
    }
  }
  assertStringIncludes(await callError(read, { path: "file-link" }), "it is outside");
});

Deno.test("read_file reads a file of 256 MB in constant memory, and stops when aborted", async () => {
  await using ws = await makeWorkspace({ text: "text\n".repeat(2000), binary: "" });
  const size = 2 ** 28;
  await Deno.truncate(ws.at("text"), size);
  await Deno.truncate(ws.at("binary"), size);
  const read = readFileTool(ws.root);
  assertStringIncludes(await callError(read, { path: "binary" }), "it is a binary file");
  await assertRejects(() => call(read, { path: "text" }, abortOnProgress()), DOMException, "aborted");
  const before = Deno.memoryUsage().external;
  assertEquals(await callOk(read, { path: "text", end_line: 2 }), "lines 1-2 of 2001\ntext\ntext");
  assert(Deno.memoryUsage().external - before < 16 * 1024 * 1024);
});

Deno.test("readFileTool() declares what it reads", () => {
  const { stance, reads } = readFileTool("/");
  assertEquals([stance, reads], ["rederivable", "path"]);
});

Deno.test("readFileTool() reports the files of a call within the workspace", async () => {
  await using ws = await makeWorkspace({ a: "", b: "" });
  const { effects } = readFileTool(ws.root);
  const also = [{ path: "../x" }, { path: "b" }, { path: "./a" }, { path: "new" }];
  assertEquals(await effects?.({ path: "a", also }), {
    root: ws.root,
    reads: [ws.at("a"), ws.at("b"), ws.at("new")],
  });
  await assertRejects(
    async () => await effects?.({ path: "..", also: [{ path: "../x" }] }),
    Error,
    "outside",
  );
});

Deno.test({
  ...needs(NOT_ROOT, "read_file reports denied permission"),
  async fn() {
    await using ws = await makeWorkspace({ f: "" });
    await Deno.chmod(ws.at("f"), 0);
    assertEquals(
      await callError(readFileTool(ws.root), { path: "f" }),
      'Cannot read "f": permission denied.',
    );
  },
});
