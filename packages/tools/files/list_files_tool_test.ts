import { assertEquals, assertStringIncludes } from "@std/assert";
import { listFilesTool } from "./list_files_tool.ts";
import { callError, callOk, makeWorkspace } from "../fixture_test.ts";

const files = {
  "a.ts": "12345",
  "src/b.ts": "",
  "src/deep/c.md": "1",
  ".env": "",
  "out/x": "",
  ".gitignore": "out\n",
};

Deno.test("list_files lists one level in order, with sizes", async () => {
  await using ws = await makeWorkspace(files);
  await Deno.symlink("a.ts", ws.at("link"));
  const list = listFilesTool(ws.root);
  assertEquals(
    await callOk(list, {}),
    "entries in .: 3; hidden or ignored, skipped: 3\na.ts\t5\nlink\tlink\nsrc/",
  );
  assertEquals(await callOk(list, { path: "src" }), "entries in src: 2\nsrc/b.ts\t0\nsrc/deep/");
  assertEquals(
    await callOk(list, { path: "src/deep/", depth: 5 }),
    "entries in src/deep: 1\nsrc/deep/c.md\t1",
  );
});

Deno.test("list_files recurses by depth or glob, and lists hidden entries on request", async () => {
  await using ws = await makeWorkspace(files);
  const list = listFilesTool(ws.root);
  assertEquals(
    await callOk(list, { path: "src", depth: 2 }),
    "entries in src: 3\nsrc/b.ts\t0\nsrc/deep/\nsrc/deep/c.md\t1",
  );
  assertEquals(
    await callOk(list, { glob: "*.{ts,md}" }),
    "files that match *.{ts,md} in .: 3; hidden or ignored, skipped: 3\na.ts\t5\nsrc/b.ts\t0\nsrc/deep/c.md\t1",
  );
  assertEquals(await callOk(list, { glob: "*.rs", path: "src" }), "files that match *.rs in src: 0");
  assertEquals(
    await callOk(list, { glob: "*.ts", depth: 1, path: "src" }),
    "files that match *.ts in src: 1\nsrc/b.ts\t0",
  );
  assertEquals(
    await callOk(list, { include_hidden: true }),
    "entries in .: 5\n.env\t0\n.gitignore\t4\na.ts\t5\nout/\nsrc/",
  );
});

Deno.test("list_files cuts a long listing and reports it", async () => {
  const many = Array.from({ length: 1200 }, (_, at) => [`f${String(at).padStart(4, "0")}`, ""]);
  await using ws = await makeWorkspace(Object.fromEntries(many));
  const [header, ...rows] = (await callOk(listFilesTool(ws.root), {})).split("\n");
  assertEquals(header, "entries in .: 1200; only the first 1000 follow, narrow it with path, depth or glob");
  assertEquals([rows.length, rows[0], rows.at(-1)], [1000, "f0000\t0", "f0999\t0"]);
});

Deno.test("list_files rejects paths that are no folder or outside", async () => {
  await using ws = await makeWorkspace(files);
  const list = listFilesTool(ws.root);
  await Deno.symlink(ws.outside, ws.at("out-link"));
  assertEquals(
    await callError(list, { path: "a.ts" }),
    'Cannot list "a.ts": it is not a folder. Read it with read_file.',
  );
  assertEquals(
    await callError(list, { path: "srcs" }),
    'Cannot list "srcs": it does not exist. Did you mean src/?',
  );
  for (const path of ["..", "out-link", "/"]) {
    assertStringIncludes(await callError(list, { path }), "it is outside of the workspace");
  }
});
