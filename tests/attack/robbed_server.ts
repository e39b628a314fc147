/**
 * Starts the real server as users do, with a home folder, sessions and keys as targets. Contains no tests.
 *
 * @module
 */
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { scripted, type SimulatedReply, simulator, toolCall } from "@tare/simulator";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { plant, processesWith, SECRET, type Target } from "./break_out.ts";

/** Deno's cache: its default is in the home folder, which is another one here. */
export const DENO_DIR = Deno.env.get("DENO_DIR") ?? join(Deno.env.get("HOME") ?? "", ".cache", "deno");

/** Starts a server whose model makes these calls in order, with secrets to steal. */
export async function withServer(
  { flags = [], env = {}, tool = "shell", mcp = {}, calls }: {
    readonly flags?: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
    readonly tool?: string;
    readonly mcp?: Readonly<Record<string, unknown>>;
    readonly calls: (target: Target) => readonly Readonly<Record<string, unknown>>[];
  },
  work: (
    server: { readonly target: Target; readonly url: string; readonly greeting: () => Promise<string> },
    turn: () => Promise<readonly SessionEvent[]>,
  ) => Promise<void>,
): Promise<void> {
  const top = await Deno.realPath(await Deno.makeTempDir());
  await plant(top);
  const mcpFile = join(top, "workspace", "settings", "mcp.json");
  if (Object.keys(mcp).length > 0) {
    await Deno.writeTextFile(mcpFile, JSON.stringify({ mcpServers: mcp, of: SECRET }));
    flags = [...flags, "--mcp", mcpFile];
  }
  using _socket = Deno.listen({ transport: "unix", path: join(top, "beside", "socket") });
  let replies: readonly SimulatedReply[] = [];
  const encode = (text: string) => text.split(" ").map(({ length }) => length);
  const modelOf = () => simulator({ model: scripted(replies), tokenizer: { encode } });
  let model: ReturnType<typeof modelOf> | undefined;
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    // The server lists the models before it listens.
    return await (request.method === "GET" ? modelOf() : model ??= modelOf()).fetch(request);
  });
  const server = await startProcess([
    ...["--port", "0", "--workspace", join(top, "workspace"), "--data", join(top, "data"), "--model", "m"],
    ...["--base-url", `http://127.0.0.1:${provider.addr.port}/v1`, ...flags],
    ...(flags.includes("--approvals")
      ? []
      : ["--approvals", join(top, "workspace", "settings", "rules.json")]),
  ], {
    DENO_DIR,
    HOME: join(top, "home"),
    OPENAI_API_KEY: SECRET,
    TARE_TOKEN: SECRET,
    GITHUB_TOKEN: SECRET,
    ...env,
  });
  const target = {
    top,
    port: Number(new URL(server.url).port),
    pids: await processesWith(join(top, "data")),
  };
  replies = [
    ...calls(target).map(({ tool: own, ...call }) => ({ tool_calls: [toolCall(String(own ?? tool), call)] })),
    { content: "Done." },
    { content: "Done." },
  ];
  const client = agentClient(server.url, SECRET);
  let greeting: string | undefined;
  const end = async () => {
    if (greeting !== undefined) return greeting;
    const ended = await Promise.resolve().then(() => server.end("SIGTERM")).catch(() => server.ended);
    return greeting = ended.stdout;
  };
  try {
    await work({ target, url: server.url, greeting: end }, async () => {
      const session = await client.createSession();
      const events = await client.startTurn(session, "Go.");
      return (await Array.fromAsync(events)).map(({ event }) => event);
    });
  } finally {
    await end();
    await provider.shutdown();
    await Deno.remove(top, { recursive: true });
  }
}

export const resultsOf = (events: readonly SessionEvent[]): readonly string[] =>
  events.flatMap((event) => event.type === "tool_result" ? [event.content] : []);
