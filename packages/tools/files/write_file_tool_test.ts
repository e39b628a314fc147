import { assertEquals, assertStringIncludes } from "@std/assert";
import { writeFileTool } from "./write_file_tools.ts";
import { callError, callOk, context, makeWorkspace } from "../fixture_test.ts";
import { needs, NOT_ROOT } from "../../../tests/needs.ts";

Deno.test("write_file creates a file and its folders", async () => {
  await using ws = await makeWorkspace();
  const write = writeFileTool(ws.root);
  assertEquals(
    await callOk(write, { path: "a/b/new.txt", content: "é\nb\n" }),
    "created a/b/new.txt: bytes 5, lines 2",
  );
  assertEquals(await Deno.readTextFile(ws.at("a/b/new.txt")), "é\nb\n");
  assertEquals(await callOk(write, { path: "empty", content: "" }), "created empty: bytes 0, lines 0");
  assertEquals(await callOk(write, { path: "open", content: "a\nb" }), "created open: bytes 3, lines 2");
});

Deno.test("write_file replaces a file and retains its mode", async () => {
  await using ws = await makeWorkspace({ "run.sh": "old" });
  await Deno.chmod(ws.at("run.sh"), 0o750);
  assertEquals(
    await callOk(writeFileTool(ws.root), { path: "run.sh", content: "new\n" }),
    "replaced run.sh: bytes 4, lines 1 (before: bytes 3)",
  );
  assertEquals((await Deno.stat(ws.at("run.sh"))).mode! & 0o777, 0o750);
});

Deno.test("write_file writes through links inside, and to the targets of dangling ones", async () => {
  await using ws = await makeWorkspace({ "real/f": "old" });
  await Deno.symlink("real/f", ws.at("link"));
  await Deno.symlink("real/new", ws.at("dangling"));
  const write = writeFileTool(ws.root);
  assertEquals(
    await callOk(write, { path: "link", content: "1\n" }),
    "replaced real/f: bytes 2, lines 1 (before: bytes 3)",
  );
  assertEquals(
    await callOk(write, { path: "dangling", content: "2\n" }),
    "created real/new: bytes 2, lines 1",
  );
  assertEquals((await Deno.lstat(ws.at("link"))).isSymlink, true);
  assertEquals(await Deno.readTextFile(ws.at("dangling")), "2\n");
});

Deno.test("write_file creates nothing outside the workspace", async () => {
  await using ws = await makeWorkspace({ "src/": "" });
  await Deno.writeTextFile(`${ws.outside}/f`, "untouched");
  await Deno.symlink(ws.outside, ws.at("folder"));
  await Deno.symlink(`${ws.outside}/f`, ws.at("file"));
  await Deno.symlink(`${ws.outside}/new`, ws.at("dangling"));
  const write = writeFileTool(ws.root);
  const paths = [
    "folder/f",
    "folder/new",
    "file",
    "dangling",
    "../outside/new",
    `${ws.outside}/new`,
    "src/../../x",
  ];
  for (const path of paths) {
    assertStringIncludes(await callError(write, { path, content: "x" }), "it is outside of the workspace");
  }
  assertEquals([...Deno.readDirSync(ws.outside)].map(({ name }) => name), ["f"]);
  assertEquals(await Deno.readTextFile(`${ws.outside}/f`), "untouched");
});

Deno.test("write_file explains paths where no file can be", async () => {
  await using ws = await makeWorkspace({ "src/": "", file: "" });
  await new Deno.Command("mkfifo", { args: [ws.at("pipe")] }).output();
  const write = writeFileTool(ws.root);
  const error = (path: string) => callError(write, { path, content: "x" });
  assertEquals(await error("src"), 'Cannot write "src": it is a folder. Name a file in it.');
  assertEquals(await error("."), 'Cannot write ".": it is a folder. Name a file in it.');
  assertStringIncludes(await error("pipe"), "it is a pipe");
  assertEquals(await error("file/x"), 'Cannot write "file/x": a part of its path is a file, not a folder.');
  assertStringIncludes(await error("a\0b"), "a path cannot contain a NUL character");
});

Deno.test("writeFileTool() declares what it writes", () => {
  const { stance, writes } = writeFileTool("/");
  assertEquals([stance, writes], ["once", "path"]);
});

Deno.test({
  ...needs(NOT_ROOT, "write_file reports denied permission"),
  async fn() {
    await using ws = await makeWorkspace({ "src/": "", protected: "old" });
    await Deno.chmod(ws.at("src"), 0o500);
    await Deno.chmod(ws.at("protected"), 0o400);
    assertEquals(
      await callError(writeFileTool(ws.root), { path: "src/f", content: "" }),
      'Cannot write "src/f": permission denied.',
    );
    assertEquals(
      await callError(writeFileTool(ws.root), { path: "protected", content: "" }),
      'Cannot write "protected": permission denied.',
    );
  },
});

Deno.test("write_file returns a limited diff before and after it runs", async () => {
  await using ws = await makeWorkspace({ same: "a\n", bytes: new Uint8Array([0xff, 0x00]) });
  const write = writeFileTool(ws.root);
  const change = async (path: string, content: string) => {
    const before = await write.preview!({ path, content }, context);
    const output = await write.run({ path, content }, context);
    assertEquals(typeof output === "string" ? undefined : output.change, before);
    return before && "diff" in before ? before : undefined;
  };
  assertEquals(await change("new", "a\nb\n"), {
    ...{ path: "new", added: 2, removed: 0, diff: "@@ -0,0 +1,2 @@\n+a\n+b" },
  });
  assertEquals(await change("new", "a\nc\n"), {
    ...{ path: "new", added: 1, removed: 1, diff: "@@ -1,2 +1,2 @@\n a\n-b\n+c" },
  });
  assertEquals(await change("same", "a\n"), { path: "same", added: 0, removed: 0, diff: "" });
  assertEquals(await change("bytes", "text\n"), undefined);

  const lines = (count: number, word: string) =>
    Array.from({ length: count }, (_, at) => `${word} ${at}\n`).join("");
  const first = await change("long", lines(5_000, "one"));
  assertEquals([first?.added, first?.removed], [5_000, 0]);
  const second = await change("long", lines(5_000, "two"));
  assertEquals([second?.added, second?.removed], [5_000, 5_000]);
  const visibleCount = second!.diff.split("\n").length;
  assertEquals([second!.diff.length < 17_000, visibleCount + second!.omitted!], [true, 10_001]);

  const wide = await change("wide", `${"x".repeat(3_000)}\n`);
  assertEquals(wide?.diff.endsWith("x… and 1001 characters more"), true);
  assertEquals([wide?.added, wide?.omitted], [1, 1]);
});

Deno.test("write_file rejects an impossible path before it runs", async () => {
  await using ws = await makeWorkspace({ "folder/": "", f: "" });
  const problem = await writeFileTool(ws.root).preview!({ path: "folder", content: "" }, context);
  assertEquals(problem, { problem: 'Cannot write "folder": it is a folder. Name a file in it.' });
});
