import { assertEquals, assertStringIncludes } from "@std/assert";
import { writeFileTool } from "./write_file_tools.ts";
import { callError, callOk, makeWorkspace } from "../fixture_test.ts";

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

Deno.test("write_file replaces a file and keeps its mode", async () => {
  await using ws = await makeWorkspace({ "run.sh": "old" });
  await Deno.chmod(ws.at("run.sh"), 0o750);
  assertEquals(
    await callOk(writeFileTool(ws.root), { path: "run.sh", content: "new\n" }),
    "replaced run.sh: bytes 4, lines 1 (before: bytes 3)",
  );
  assertEquals((await Deno.stat(ws.at("run.sh"))).mode! & 0o777, 0o750);
});

Deno.test("write_file writes through links that stay inside, and to where dangling ones point", async () => {
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

Deno.test("write_file makes nothing outside the workspace", async () => {
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
    assertStringIncludes(await callError(write, { path, content: "x" }), "it lies outside the workspace");
  }
  assertEquals([...Deno.readDirSync(ws.outside)].map(({ name }) => name), ["f"]);
  assertEquals(await Deno.readTextFile(`${ws.outside}/f`), "untouched");
});

Deno.test("write_file says what to do about places where no file can be", async () => {
  await using ws = await makeWorkspace({ "src/": "", file: "" });
  await new Deno.Command("mkfifo", { args: [ws.at("pipe")] }).output();
  const write = writeFileTool(ws.root);
  const error = (path: string) => callError(write, { path, content: "x" });
  assertEquals(await error("src"), 'Cannot write "src": it is a folder. Name a file in it.');
  assertEquals(await error("."), 'Cannot write ".": it is a folder. Name a file in it.');
  assertStringIncludes(await error("pipe"), "it is a pipe");
  assertEquals(await error("file/x"), 'Cannot write "file/x": a part of its path is a file, not a folder.');
  assertStringIncludes(await error("a\0b"), "a path cannot hold a NUL character");
});

Deno.test("writeFileTool() declares what it writes", () => {
  const { stance, writes } = writeFileTool("/");
  assertEquals([stance, writes], ["once", "path"]);
});

Deno.test({
  name: "write_file says that permission is denied",
  // The superuser can write everywhere.
  ignore: Deno.uid() === 0,
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
