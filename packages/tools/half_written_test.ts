import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { editFileTool, writeFileTool } from "./files/write_file_tools.ts";
import { callOk, context, makeWorkspace } from "./fixture_test.ts";

const WRITER = fromFileUrl(import.meta.resolve("./killed_writer_test.ts"));

for (
  const args of [
    { path: "a/f", content: "new\n" },
    { path: "a/f", old_text: "old", new_text: "new" },
  ]
) {
  const name = "content" in args ? "write_file" : "edit_file";
  Deno.test(`${name} removes its temporary files after it was killed, and none of other calls`, async () => {
    await using ws = await makeWorkspace({ "a/f": "old\n" });
    const names = () => [...Deno.readDirSync(ws.at("a"))].map(({ name }) => name).sort();
    const allowed = [`--allow-read=${ws.root}`, `--allow-write=${ws.root}`, "--allow-run"];
    const { signal } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-check", ...allowed, WRITER, ws.root, JSON.stringify(args), "call_1"],
    }).output();
    assertEquals(signal, "SIGKILL");
    const [left = "", ...files] = names();
    assertMatch(left, /^\.tare-[0-9a-f]{32}\.tmp$/);
    assertEquals(files, ["f"]);

    const tool = "content" in args ? writeFileTool(ws.root) : editFileTool(ws.root);
    await tool.clearUp!(args, { callId: "call_2" });
    await tool.clearUp!({ ...args, path: "gone/f" }, { callId: "call_1" });
    await tool.clearUp!({ ...args, path: "../f" }, { callId: "call_1" });
    assertEquals(names(), [left, "f"]);
    await callOk(tool, args, { ...context, callId: "call_1" });
    assertEquals(names(), [left, "f"]);
    await tool.clearUp!(args, { callId: "call_1" });
    assertEquals(names(), ["f"]);
    assertEquals(await Deno.readTextFile(ws.at("a/f")), "new\n");
  });
}

Deno.test("write_file, edit_file: temporary files of a killed process are removed", async () => {
  await using ws = await makeWorkspace({ "f": "old\n" });
  const args = { path: "f", content: "new\n" };
  const left = () => [...Deno.readDirSync(`${ws.outside}/staged`)].length;
  const allowed = [
    `--allow-read=${ws.root},${ws.outside}`,
    `--allow-write=${ws.root},${ws.outside}`,
    "--allow-run",
  ];
  const { signal } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", ...allowed, WRITER, ws.root, JSON.stringify(args), "call_1", ws.outside],
  }).output();
  assertEquals([signal, left()], ["SIGKILL", 1]);
  const tool = writeFileTool(ws.root, { hidden: ws.outside });
  await tool.clearUp!(args, { callId: "call_2" });
  assertEquals(left(), 1);
  await tool.clearUp!(args, { callId: "call_1" });
  assertEquals(left(), 0);
  assertEquals([...Deno.readDirSync(ws.root)].map(({ name }) => name), ["f"]);
});
