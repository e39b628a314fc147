import { assertEquals, assertStringIncludes } from "@std/assert";
import { editFileTool } from "./write_file_tools.ts";
import { call, callError, callOk, context, makeWorkspace } from "../fixture_test.ts";

const text = Array.from({ length: 9 }, (_, at) => `line ${at + 1}\n`).join("");

Deno.test("edit_file replaces text and returns the changed lines", async () => {
  await using ws = await makeWorkspace({ f: text });
  const edit = editFileTool(ws.root);
  assertEquals(
    await callOk(edit, { path: "f", old_text: "line 5", new_text: "five\nand a half" }),
    "edited f: lines 3-8 of 10 are now\nline 3\nline 4\nfive\nand a half\nline 6\nline 7",
  );
  assertEquals(await Deno.readTextFile(ws.at("f")), text.replace("line 5", "five\nand a half"));
  assertEquals(
    await callOk(edit, { path: "f", old_text: "line 1\n", new_text: "" }),
    "edited f: lines 1-3 of 9 are now\nline 2\nline 3\nline 4",
  );
});

Deno.test("edit_file replaces all on request, and names the lines", async () => {
  await using ws = await makeWorkspace({ f: "a\nb\na\n" });
  assertEquals(
    await callOk(editFileTool(ws.root), { path: "f", old_text: "a", new_text: "c\nd", replace_all: true }),
    "edited f: 2 replacements, in lines 1, 4; lines 1-4 of 5 are now\nc\nd\nb\nc",
  );
  assertEquals(await Deno.readTextFile(ws.at("f")), "c\nd\nb\nc\nd\n");
});

Deno.test("edit_file retains line ends, byte order mark and mode", async () => {
  await using ws = await makeWorkspace({ f: "\uFEFFone\r\ntwo\r\n" });
  await Deno.chmod(ws.at("f"), 0o640);
  assertEquals(
    await callOk(editFileTool(ws.root), { path: "f", old_text: "one\ntwo", new_text: "1\n2\n3" }),
    "edited f: lines 1-3 of 3 are now\n\uFEFF1\n2\n3",
  );
  const bytes = await Deno.readFile(ws.at("f"));
  assertEquals(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes), "\uFEFF1\r\n2\r\n3\r\n");
  assertEquals((await Deno.stat(ws.at("f"))).mode! & 0o777, 0o640);
});

Deno.test("edit_file changes nothing if the match is ambiguous", async () => {
  await using ws = await makeWorkspace({
    f: "a b\na  b\n",
    invalid: new Uint8Array([0x61, 0xE9]),
    "src/": "",
  });
  const edit = editFileTool(ws.root);
  const error = (path: string, old_text: string, new_text = "new") =>
    callError(edit, { path, old_text, new_text });
  assertEquals(
    await error("f", "b"),
    'Cannot edit "f": old_text occurs 2 times, in lines 1, 2. Add lines around it until it is unique, or set ' +
      "replace_all to true.",
  );
  assertStringIncludes(await error("f", "a   b\n"), "The nearest lines are");
  assertEquals(await error("f", "a b", "a b"), 'Cannot edit "f": old_text and new_text are the same.');
  assertStringIncludes(await error("invalid", "a"), "it is not valid UTF-8, and an edit would damage it.");
  assertStringIncludes(await error("src", "a"), "it is a folder.");
  assertStringIncludes(await error("missing", "a"), "it does not exist.");
  assertStringIncludes(await error("../outside/f", "a"), "it is outside of the workspace.");
  assertEquals(await Deno.readTextFile(ws.at("f")), "a b\na  b\n");
});

Deno.test("edit_file rejects files that are too large", async () => {
  await using ws = await makeWorkspace({ f: "a" });
  await Deno.truncate(ws.at("f"), 5_000_000);
  assertEquals(
    await callError(editFileTool(ws.root), { path: "f", old_text: "a", new_text: "b" }),
    'Cannot edit "f": it has 5000000 bytes. Edit files of that size with shell.',
  );
});

Deno.test("edit_file calls that run in parallel don't undo each other, nor through a link", async () => {
  await using ws = await makeWorkspace({ f: Array.from({ length: 20 }, (_, at) => `<${at}>\n`).join("") });
  await Deno.symlink("f", ws.at("link"));
  const edit = editFileTool(ws.root);
  await Promise.all(
    Array.from(
      { length: 20 },
      (_, at) => call(edit, { path: at % 2 ? "f" : "link", old_text: `<${at}>`, new_text: `done ${at}` }),
    ),
  );
  assertEquals(
    await Deno.readTextFile(ws.at("f")),
    Array.from({ length: 20 }, (_, at) => `done ${at}\n`).join(""),
  );
});

Deno.test("editFileTool() declares what it writes", () => {
  const { stance, writes } = editFileTool("/");
  assertEquals([stance, writes], ["once", "path"]);
});

Deno.test("edit_file returns a diff before and after it runs, as in the file", async () => {
  await using ws = await makeWorkspace({ f: text, crlf: "a\r\nb\r\nc", all: "x = 1\ny\nx = 2\n" });
  const edit = editFileTool(ws.root);
  const cases: readonly [Readonly<Record<string, unknown>>, unknown][] = [
    [{ path: "f", old_text: "line 5\n", new_text: "" }, {
      ...{ path: "f", added: 0, removed: 1 },
      diff: "@@ -2,7 +2,6 @@\n line 2\n line 3\n line 4\n-line 5\n line 6\n line 7\n line 8",
    }],
    [{ path: "./crlf", old_text: "b\nc", new_text: "b\nd" }, {
      ...{ path: "crlf", added: 1, removed: 1 },
      diff: "@@ -1,3 +1,3 @@\n a\n b\n-c\n\\ No newline at end of file\n+d\n\\ No newline at end of file",
    }],
    [{ path: "all", old_text: "x", new_text: "z", replace_all: true }, {
      ...{ path: "all", added: 2, removed: 2 },
      diff: "@@ -1,3 +1,3 @@\n-x = 1\n+z = 1\n y\n-x = 2\n+z = 2",
    }],
  ];
  for (const [args, change] of cases) {
    const before = await Deno.readTextFile(ws.at(String(args.path)));
    assertEquals(await edit.preview!(args, context), change);
    assertEquals(await Deno.readTextFile(ws.at(String(args.path))), before);
    const output = await edit.run(args, context);
    assertEquals(typeof output === "string" ? undefined : output.change, change);
  }
});

Deno.test("edit_file fails before it runs without revealing the file", async () => {
  await using ws = await makeWorkspace({ f: "key = secret\nkey = other\n", "folder/": "" });
  const edit = editFileTool(ws.root);
  const problem = async (args: Readonly<Record<string, unknown>>) => {
    const found = await edit.preview!({ path: "f", new_text: "n", ...args }, context);
    return found && "problem" in found ? found.problem : found;
  };
  assertEquals(
    await problem({ old_text: "key = secre7" }),
    'Cannot edit "f": old_text is not in it. Copy it exactly, white space included. The nearest lines are 1-1. ' +
      "Read them first.",
  );
  assertEquals(
    await problem({ old_text: "key" }),
    'Cannot edit "f": old_text occurs 2 times, in lines 1, 2. Add lines around it until it is unique, or set ' +
      "replace_all to true.",
  );
  assertEquals(
    await problem({ path: "g", old_text: "a" }),
    'Cannot edit "g": it does not exist. Look for it with list_files.',
  );
  assertEquals(
    await problem({ path: "folder", old_text: "a" }),
    'Cannot edit "folder": it is a folder. See what is in it with list_files.',
  );
  assertEquals(
    await problem({ path: "../f", old_text: "a" }),
    'Cannot edit "../f": it is outside of the workspace. Pass a path relative to the workspace.',
  );
});
