import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { recordingProvider } from "../recording_provider.ts";
import { type ServerProcess, startServerProcess } from "../crash/server_process.ts";
import { readEvents } from "../crash/read_events.ts";
import { jsonPost } from "../crash/json_post.ts";
import { type SimulatedToolCall, toolCall } from "@tare/simulator";
import { LINUX, needs } from "../needs.ts";

async function withServer(
  calls: (workspace: string) => readonly SimulatedToolCall[],
  test: (server: {
    readonly process: ServerProcess;
    readonly start: () => Promise<ServerProcess>;
    readonly workspace: string;
  }) => Promise<void>,
): Promise<void> {
  const workspace = await Deno.realPath(await Deno.makeTempDir());
  await Deno.symlink("data", join(workspace, "link"));
  const provider = recordingProvider(
    ({ messages }) =>
      messages.at(-1)?.role === "tool" ? { content: "done" } : { content: "", tool_calls: calls(workspace) },
    () => 0,
  );
  const start = () =>
    startServerProcess([
      ...["--port", "0", "--workspace", workspace, "--data", join(workspace, "data"), "--approvals", "allow"],
      ...["--base-url", provider.url, "--model", "simulated"],
    ]);
  const process = await start();
  try {
    await test({ process, start, workspace });
  } finally {
    await process.kill();
    await provider.close();
    await Deno.remove(workspace, { recursive: true });
  }
}

async function play(url: string): Promise<{ readonly id: string; readonly results: readonly string[] }> {
  const { id } = await (await fetch(`${url}/tare/v1/sessions`, { method: "POST" })).json();
  const results: string[] = [];
  for await (
    const { data } of readEvents(
      await fetch(`${url}/tare/v1/sessions/${id}/turns`, jsonPost({ input: "go" })),
    )
  ) {
    const event = JSON.parse(data);
    if (event.type === "tool_result") results.push(`${event.name}: ${event.content}`);
  }
  return { id, results: results.sort() };
}

Deno.test("data folder: file tools can't reach the sessions although the data folder is in the workspace", () =>
  withServer(
    (workspace) => [
      toolCall("write_file", { path: "data/tare.db", content: "" }),
      toolCall("write_file", { path: "link/tare.db-wal", content: "" }),
      toolCall("edit_file", { path: join(workspace, "data", "tare.db"), old_text: "SQLite", new_text: "" }),
      toolCall("read_file", { path: "./link/../data/tare.db" }),
      toolCall("search_files", { pattern: "SQLite", include_hidden: true, output: "files" }),
      toolCall("list_files", { depth: 9, include_hidden: true }),
    ],
    async ({ process, start }) => {
      const { id, results } = await play(process.url);
      const retained = "it is in a folder of the server, which no tool may access.";
      const [edited, listed, read, searched, ...written] = results as [string, string, string, string];
      for (const result of [edited, read, ...written]) assertStringIncludes(result, retained);
      assertEquals(listed, "list_files: entries in .: 1; hidden or ignored, skipped: 1\nlink\tlink");
      assertMatch(searched, /^search_files: files with matches: 0;/);
      assertEquals(await process.kill(), "");
      const again = await start();
      const { messages } = await (await fetch(`${again.url}/tare/v1/sessions/${id}`)).json();
      assertEquals([messages.at(-1).content, await again.kill()], ["done", ""]);
    },
  ));

Deno.test("data folder: a server whose file a command removed acknowledges nothing more, and serves what it has", () =>
  withServer(
    () => [toolCall("shell", { command: "rm -r data" })],
    async ({ process, workspace }) => {
      const { url } = process;
      const { id } = await (await fetch(`${url}/tare/v1/sessions`, { method: "POST" })).json();
      const events: unknown[] = [];
      let text = "";
      try {
        const response = await fetch(`${url}/tare/v1/sessions/${id}/turns`, jsonPost({ input: "go" }));
        for await (const { data } of readEvents(response)) events.push(JSON.parse(data).type);
      } catch (error) {
        text = (error as Error).message;
      }
      const lost = `Cannot write to the store: ${join(workspace, "data", "tare.db")} was removed or replaced`;
      assertStringIncludes(text, lost);
      assertEquals(events.includes("tool_result"), false);
      const refused = await fetch(`${url}/tare/v1/sessions`, { method: "POST" });
      assertEquals(refused.status, 500);
      assertStringIncludes((await refused.json()).error.message, lost);
      const exported = await (await fetch(`${url}/tare/v1/sessions/${id}/export`)).text();
      assertStringIncludes(exported, '{"role":"user","content":"go"}');
      assertStringIncludes(await process.kill(), lost);
    },
  ));

Deno.test(
  needs(
    LINUX,
    "data folder: a killed server's running commands are ended at the next start, and reported",
  ),
  () =>
    withServer(
      () => [toolCall("shell", { command: "setsid sleep 300 & echo started >flag; sleep 300" })],
      async ({ process, start, workspace }) => {
        const watcher = Deno.watchFs(workspace);
        const { id } = await (await fetch(`${process.url}/tare/v1/sessions`, { method: "POST" })).json();
        const response = await fetch(
          `${process.url}/tare/v1/sessions/${id}/turns`,
          jsonPost({ input: "go" }),
        );
        for await (const { paths } of watcher) if (paths.some((path) => path.endsWith("flag"))) break;
        await process.kill();
        await response.body?.cancel().catch(() => {});
        const again = await start();
        assertMatch(
          await again.kill(),
          /^Ended [2-9] processes that commands of an earlier server left running\.\n$/,
        );
      },
    ),
);
