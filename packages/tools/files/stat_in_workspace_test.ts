import { assertEquals, assertRejects } from "@std/assert";
import { ToolRefusal } from "../define_tool.ts";
import { context, makeWorkspace } from "../fixture_test.ts";
import { resolveInWorkspace } from "./resolve_in_workspace.ts";
import { statFile, statInWorkspace } from "./stat_in_workspace.ts";

const files = { "src/server/handler.ts": "12345", "src/handler_test.ts": "", "docs/": "", "node/x": "" };

Deno.test("statInWorkspace() describes what is there", async () => {
  await using ws = await makeWorkspace(files);
  const stat = async (path: string) =>
    await statInWorkspace(await resolveInWorkspace(ws.root, path), context);
  assertEquals((await stat("src/server/handler.ts")).size, 5);
  assertEquals((await stat("docs")).isDirectory(), true);
});

Deno.test("statInWorkspace() suggests paths with the same or a similar name", async () => {
  await using ws = await makeWorkspace(files);
  const refusal = async (path: string) => {
    const place = await resolveInWorkspace(ws.root, path);
    return (await assertRejects(() => statInWorkspace(place, context), ToolRefusal)).message;
  };
  assertEquals(
    await refusal("src/Handler.ts"),
    "it does not exist. Did you mean src/server/handler.ts or src/handler_test.ts?",
  );
  assertEquals(await refusal("src/sever"), "it does not exist. Did you mean src/server/?");
  assertEquals(await refusal("zzz.bin"), "it does not exist. Look for it with list_files.");
});

Deno.test("statFile() refuses folders and pipes", async () => {
  await using ws = await makeWorkspace(files);
  await new Deno.Command("mkfifo", { args: [ws.at("pipe")] }).output();
  const stat = async (path: string) => await statFile(await resolveInWorkspace(ws.root, path), context);
  assertEquals((await stat("node/x")).isFile(), true);
  await assertRejects(() => stat("docs"), ToolRefusal, "it is a folder. See what is in it with list_files.");
  await assertRejects(() => stat("pipe"), ToolRefusal, "it is a pipe, a socket or a device");
});
