import { fileTools } from "@tare/tools/files";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { callOk, makeWorkspace } from "../fixture_test.ts";

Deno.test("fileTools() returns tools that list, read, write and edit files of one workspace", async () => {
  await using workspace = await makeWorkspace();
  const tools = fileTools(workspace.root);
  assertEquals(tools.map(({ definition }) => definition.function.name), [
    "list_files",
    "read_file",
    "write_file",
    "edit_file",
  ]);
  const [list, read, write, edit] = tools;
  await callOk(write!, { path: "a.txt", content: "one\n" });
  await callOk(edit!, { path: "a.txt", old_text: "one", new_text: "two" });
  assertStringIncludes(await callOk(list!, {}), "a.txt");
  assertStringIncludes(await callOk(read!, { path: "a.txt" }), "two");
});
