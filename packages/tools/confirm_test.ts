import { assertEquals, assertRejects } from "@std/assert";
import { editFileTool, writeFileTool } from "./files/write_file_tools.ts";
import { shellTool } from "./shell/shell_tool.ts";
import { context, makeWorkspace } from "./fixture_test.ts";

Deno.test("confirm(): tools change nothing if it throws right before", async () => {
  await using ws = await makeWorkspace({ "a.txt": "old\n" });
  const confirm = () => {
    throw new Error("Another server has it.");
  };
  const calls = [
    [shellTool({ workspace: ws.root }), { command: "echo new > a.txt" }],
    [writeFileTool(ws.root), { path: "a.txt", content: "new\n" }],
    [editFileTool(ws.root), { path: "a.txt", old_text: "old", new_text: "new" }],
  ] as const;
  for (const [tool, args] of calls) {
    await assertRejects(async () => await tool.run(args, { ...context, confirm }), Error, "Another server");
    assertEquals(Array.from(Deno.readDirSync(ws.root), ({ name }) => name), ["a.txt"]);
    assertEquals(await Deno.readTextFile(ws.at("a.txt")), "old\n");
    await tool.run(args, context);
    assertEquals(await Deno.readTextFile(ws.at("a.txt")), "new\n");
    await Deno.writeTextFile(ws.at("a.txt"), "old\n");
  }
});
