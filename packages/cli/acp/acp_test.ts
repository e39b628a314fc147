// Runs the protocol's own client against the real command and a real server.
import {
  client,
  type ClientContext,
  type ContentBlock,
  ndJsonStream,
  PROTOCOL_VERSION,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { assertEquals, assertRejects } from "@std/assert";
import { join, toFileUrl } from "@std/path";
import { scripted, type SimulatedModel, toolCall } from "@tare/simulator";
import { recordingProvider } from "../../../tests/recording_provider.ts";
import { type ServerProcess, startServerProcess } from "../../../tests/crash/server_process.ts";
import { ownerOf } from "../../../tests/crash/owner.ts";
import { denoArgs } from "../tasks.ts";

/** An editor that started the command. */
interface Editor {
  readonly agent: ClientContext;
  /** Received updates, oldest first, with pieces of a text joined. */
  readonly updates: SessionUpdate[];
  /** Window of each usage update. */
  readonly sizes: readonly number[];
  readonly seen: (isIt: (update: SessionUpdate) => boolean) => Promise<void>;
  readonly close: () => Promise<{ readonly code: number; readonly stderr: string }>;
}

type Permit = (
  request: RequestPermissionRequest,
) => RequestPermissionResponse | Promise<RequestPermissionResponse>;

async function startEditor(
  url: string,
  { permit = () => ({ outcome: { outcome: "cancelled" } }), notices = true, data = "" }: {
    readonly permit?: Permit;
    readonly notices?: boolean;
    readonly data?: string;
  } = {},
): Promise<Editor> {
  const process = new Deno.Command(Deno.execPath(), {
    args: [...denoArgs("acp"), `--url=${url}`],
    env: { NO_COLOR: "1", TARE_TOKEN: "", TARE_DATA: data },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const stderr = new Response(process.stderr).text();
  const updates: SessionUpdate[] = [];
  const sizes: number[] = [];
  const waiting = new Set<() => void>();
  const connection = client()
    .onNotification("session/update", ({ params: { update } }) => {
      if (update.sessionUpdate === "usage_update") {
        sizes.push(update.size);
        return;
      }
      const last = updates.at(-1);
      if (
        update.sessionUpdate === "agent_message_chunk" && last?.sessionUpdate === update.sessionUpdate &&
        last.messageId === update.messageId && update.content.type === "text" && last.content.type === "text"
      ) {
        const text = last.content.text + update.content.text;
        updates[updates.length - 1] = { ...update, content: { type: "text", text } };
      } else updates.push(update);
      for (const look of waiting) look();
    })
    .onRequest("session/request_permission", ({ params }) => permit(params))
    .connect(ndJsonStream(process.stdin, process.stdout));
  const { agent } = connection;
  await agent.request("initialize", {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { session: { ...(notices && { notices: {} }) } },
  });
  return {
    agent,
    updates,
    sizes,
    seen(isIt) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const look = () => {
        if (!updates.some(isIt)) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
      return promise;
    },
    async close() {
      await process.stdin.close().catch(() => {});
      const [{ code }, text] = await Promise.all([process.status, stderr]);
      connection.close();
      return { code, stderr: text };
    },
  };
}

/** Starts a server with a model and a workspace with a file. Without `asks` all calls are allowed. */
async function withServer(
  model: SimulatedModel,
  use: (at: {
    readonly workspace: string;
    readonly data: string;
    readonly start: () => Promise<ServerProcess>;
    readonly editor: (...options: Parameters<typeof startEditor>) => Promise<Editor>;
    readonly requests: () => readonly string[];
  }) => Promise<void>,
  { asks = false } = {},
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, "a.txt"), "one\ntwo\n");
  const messages: string[] = [];
  const provider = recordingProvider((request) => {
    messages.push(JSON.stringify(request.messages.at(-1)?.content));
    return model(request);
  }, () => 0);
  const servers: ServerProcess[] = [];
  const editors: Editor[] = [];
  try {
    await use({
      workspace,
      data: join(folder, "data"),
      async start() {
        const port = new URL(servers.at(-1)?.url ?? "http://x:0").port;
        const flags = [
          ...(asks ? [] : ["--approvals=allow"]),
          `--port=${port || 0}`,
          `--workspace=${workspace}`,
          `--data=${join(folder, "data")}`,
        ];
        const server = await startServerProcess([...flags, "--model=m", `--base-url=${provider.url}`]);
        servers.push(server);
        return server;
      },
      async editor(url, options) {
        const editor = await startEditor(url, { data: join(folder, "data"), ...options });
        editors.push(editor);
        return editor;
      },
      requests: () => messages,
    });
  } finally {
    for (const editor of editors) await editor.close();
    for (const server of servers) await server.kill();
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
}

const text = (text: string): ContentBlock => ({ type: "text", text });

function brief(update: SessionUpdate): string {
  switch (update.sessionUpdate) {
    case "user_message_chunk":
    case "agent_message_chunk":
      return `${update.sessionUpdate.split("_")[0]}: ${
        update.content.type === "text" && update.content.text
      }`;
    case "notice":
      return `notice: ${update.title}`;
    case "tool_call":
      return `${update.kind}: ${update.title}`;
    case "tool_call_update":
      return `${update.status}`;
    default:
      return update.sessionUpdate;
  }
}

Deno.test("tare acp runs a turn with tool calls, and replays it when the session is loaded", async () => {
  const model = scripted([
    { content: "I look.", tool_calls: [toolCall("read_file", { path: "a.txt", start_line: 2 })] },
    { tool_calls: [toolCall("edit_file", { path: "a.txt", old_text: "two", new_text: "2" })] },
    { tool_calls: [toolCall("shell", { command: "cat a.txt; exit 3" })] },
    { content: "It says 2." },
  ]);
  await withServer(model, async ({ workspace, start, editor, requests }) => {
    const server = await start();
    const { agent, updates, sizes } = await editor(server.url);
    const { sessionId } = await agent.request("session/new", { cwd: workspace, mcpServers: [] });
    const uri = toFileUrl(join(workspace, "a.txt")).href;
    const prompt: ContentBlock[] = [text("Mend "), { type: "resource_link", name: "a.txt", uri }];
    assertEquals(await agent.request("session/prompt", { sessionId, prompt }), { stopReason: "end_turn" });
    assertEquals(sizes, [128_000, 128_000, 128_000, 128_000]);
    assertEquals(requests()[0], '"Mend a.txt"');
    assertEquals(updates.map(brief), [
      "agent: I look.",
      "read: Read a.txt (lines 2–…)",
      "completed",
      "edit: Edit a.txt",
      "completed",
      "execute: `cat a.txt; exit 3`",
      "completed",
      "agent: It says 2.",
    ]);
    const path = join(workspace, "a.txt");
    assertEquals(
      updates.flatMap((update) => update.sessionUpdate === "tool_call" ? [update.locations] : []),
      [
        [{ path, line: 2 }],
        [{ path }],
        [],
      ],
    );
    assertEquals(updates.flatMap((update) => update.sessionUpdate === "tool_call" ? update.content : []), [
      { type: "diff", path, oldText: "two", newText: "2" },
    ]);

    await server.kill();
    const again = await editor((await start()).url);
    await again.agent.request("session/load", { sessionId, cwd: workspace, mcpServers: [] });
    assertEquals(brief(again.updates[0]!), "user: Mend a.txt");
    assertEquals(again.updates.slice(1), updates);
    const { sessions } = await again.agent.request("session/list", { cwd: workspace });
    assertEquals(sessions, [{ sessionId, cwd: workspace, title: "Mend a.txt" }]);
  });
});

Deno.test("tare acp cancels a turn on request and when the editor disconnects", async () => {
  const sleep = { tool_calls: [toolCall("shell", { command: "echo begun; sleep 60" })] };
  await withServer(scripted([sleep, sleep]), async ({ workspace, data, start, editor }) => {
    const { url } = await start();
    const first = await editor(url);
    const { sessionId } = await first.agent.request("session/new", { cwd: workspace, mcpServers: [] });
    const played = first.agent.request("session/prompt", { sessionId, prompt: [text("Sleep.")] });
    await first.seen(isOutput);
    await first.agent.notify("session/cancel", { sessionId });
    assertEquals(await played, { stopReason: "cancelled" });
    assertEquals(first.updates.map(brief).at(-1), "failed");

    const left = first.agent.request("session/prompt", { sessionId, prompt: [text("Sleep.")] });
    left.catch(() => {});
    first.updates.length = 0;
    await first.seen(isOutput);
    assertEquals(await first.close(), { code: 0, stderr: "" });
    const state = await (await fetch(`${url}/tare/v1/sessions/${sessionId}`, { headers: ownerOf(data) }))
      .json();
    assertEquals([state.status, state.turns], ["idle", 2]);
  });
});

Deno.test("tare acp reports that the server is away, and resumes the turn once it is back", async () => {
  const model = scripted([
    { tool_calls: [toolCall("shell", { command: "echo begun; sleep 60" })] },
    { content: "It went on." },
    { content: "Here again." },
  ]);
  await withServer(model, async ({ workspace, start, editor }) => {
    const server = await start();
    const { agent, updates, seen } = await editor(server.url);
    const { sessionId } = await agent.request("session/new", { cwd: workspace, mcpServers: [] });
    const played = agent.request("session/prompt", { sessionId, prompt: [text("Sleep.")] });
    await seen(isOutput);
    await server.kill();
    const away = "The server can't be reached. Waiting for it; the turn continues once it is back.";
    await seen((update) => brief(update).includes(away));
    await assertRejects(
      () => agent.request("session/new", { cwd: workspace, mcpServers: [] }),
      Error,
      `Cannot reach the server at ${server.url}. Start it with tare start, or deno task start.`,
    );
    await start();
    assertEquals(await played, { stopReason: "end_turn" });
    assertEquals(updates.map(brief).at(-1), "agent: It went on.");
    updates.length = 0;
    assertEquals(await agent.request("session/prompt", { sessionId, prompt: [text("There?")] }), {
      stopReason: "end_turn",
    });
    assertEquals(updates.map(brief), ["agent: Here again."]);
  });
});

Deno.test("tare acp requests permission before calls run, and follows the user's answer", async () => {
  const run = (command: string) => toolCall("shell", { command });
  const model = scripted([
    {
      tool_calls: [
        toolCall("write_file", { path: "b.txt", content: "b" }),
        run("touch c.txt"),
        toolCall("read_file", { path: "a.txt" }),
      ],
    },
    { tool_calls: [run("ls")] },
    { tool_calls: [run("ls")] },
    { content: "Done." },
  ]);
  await withServer(model, async ({ workspace, start, editor }) => {
    const requests: string[] = [];
    const permit: Permit = ({ toolCall: { title, content } }) => {
      requests.push(`${title} ${content?.map(({ type }) => type)}`);
      const optionId = title === "`ls`" ? "always" : title?.includes("c.txt") ? "deny" : "allow";
      return { outcome: { outcome: "selected", optionId } };
    };
    const { agent, updates } = await editor((await start()).url, { permit });
    const { sessionId } = await agent.request("session/new", { cwd: workspace, mcpServers: [] });
    assertEquals(await agent.request("session/prompt", { sessionId, prompt: [text("Go.")] }), {
      stopReason: "end_turn",
    });
    assertEquals(requests, ["Write b.txt diff", "`touch c.txt` ", "`ls` "]);
    assertEquals([...Deno.readDirSync(workspace)].map(({ name }) => name).sort(), ["a.txt", "b.txt"]);
    const last = new Map(
      updates.flatMap((update) =>
        update.sessionUpdate === "tool_call_update" ? [[update.toolCallId, update.status]] : []
      ),
    );
    assertEquals([...last.values()], ["completed", "completed", "failed", "completed", "completed"]);
    assertEquals(brief(updates.at(-1)!), "agent: Done.");
  }, { asks: true });
});

Deno.test("tare acp repeats approvals of a killed server; cancelling denies them, and disconnecting doesn't", async () => {
  const append = { tool_calls: [toolCall("shell", { command: "echo once >> b.txt" })] };
  await withServer(
    scripted([append, { content: "Done." }, append, append]),
    async ({ workspace, data, start, editor }) => {
      const server = await start();
      const requested = Promise.withResolvers<void>();
      const unanswered: Permit = () => {
        requested.resolve();
        return new Promise(() => {});
      };
      const first = await editor(server.url, { permit: unanswered });
      const { sessionId } = await first.agent.request("session/new", { cwd: workspace, mcpServers: [] });
      const prompt = [text("Go.")];
      first.agent.request("session/prompt", { sessionId, prompt }).catch(() => {});
      await requested.promise;
      await server.kill();
      assertEquals(await first.close(), { code: 0, stderr: "" });

      const { url } = await start();
      const again = await editor(url, {
        permit: () => ({ outcome: { outcome: "selected", optionId: "allow" } }),
      });
      await again.agent.request("session/load", { sessionId, cwd: workspace, mcpServers: [] });
      await again.seen((update) => brief(update) === "agent: Done.");
      assertEquals(await Deno.readTextFile(join(workspace, "b.txt")), "once\n");

      const last = await editor(url, { permit: unanswered });
      const second = await last.agent.request("session/new", { cwd: workspace, mcpServers: [] });
      const played = last.agent.request("session/prompt", { ...second, prompt });
      await last.seen((update) => brief(update) === "pending");
      await last.agent.notify("session/cancel", second);
      assertEquals(await played, { stopReason: "cancelled" });
      assertEquals(brief(last.updates.at(-1)!), "failed");
      const open = async () =>
        (await (await fetch(`${url}/tare/v1/sessions/${second.sessionId}/approvals`, {
          headers: ownerOf(data),
        }))
          .json())
          .approvals.length;
      assertEquals(await open(), 0);

      last.updates.length = 0;
      last.agent.request("session/prompt", { ...second, prompt }).catch(() => {});
      await last.seen((update) => brief(update) === "pending");
      assertEquals(await last.close(), { code: 0, stderr: "" });
      assertEquals(await open(), 1);
      assertEquals(await Deno.readTextFile(join(workspace, "b.txt")), "once\n");
    },
    { asks: true },
  );
});

function isOutput(update: SessionUpdate): boolean {
  return update.sessionUpdate === "tool_call_update" &&
    JSON.stringify(update.content ?? "").includes("begun");
}
