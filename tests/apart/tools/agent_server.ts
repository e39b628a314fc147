import { assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { join } from "@std/path";
import type { LoopEvent } from "@tare/loop";
import type { Message } from "@tare/messages";
import { scripted, type SimulatedReply, simulator } from "@tare/simulator";
import { ownerOf } from "../../crash/owner.ts";
import { startProcess } from "../../../packages/app/server_process_fixture_test.ts";

export interface SeenRequest {
  readonly tools: readonly string[];
  readonly messages: readonly Message[];
}

/** Agent server in a process of its own, started as by its users, with a scripted provider. */
export interface AgentServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly SeenRequest[];
  session(body?: unknown): Promise<string>;
  turn(session: string): Promise<readonly LoopEvent[]>;
  /** Approves the pending call; returns the following events up to the turn's end. Default: `allow`. */
  allow(session: string, decision?: "allow" | "always"): Promise<readonly LoopEvent[]>;
  kill(): Promise<void>;
}

/** Starts a server with these MCP servers. @throws {Error} with its output, if it ends. */
export async function agentServer({ mcp, replies, data, asks = false }: {
  readonly mcp: Readonly<Record<string, unknown>>;
  readonly replies: readonly SimulatedReply[];
  readonly data?: string;
  /** Whether calls that don't only read need approval. Default: all run. */
  readonly asks?: boolean;
}): Promise<AgentServer> {
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "workspace");
  await Deno.mkdir(workspace);
  const file = join(folder, "mcp.json");
  await Deno.writeTextFile(file, JSON.stringify({ mcpServers: mcp }));
  const requests: SeenRequest[] = [];
  const encode = (text: string) => text.split(" ").map(({ length }) => length);
  const provider = simulator({ model: scripted(replies), tokenizer: { encode } });
  const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "GET") return await provider.fetch(request);
    const { method, headers } = request;
    const body = await request.text();
    const { tools = [], messages } = JSON.parse(body);
    requests.push({
      messages,
      tools: tools.map((tool: { function: { name: string } }) => tool.function.name),
    });
    return await provider.fetch(new Request(request.url, { method, headers, body }));
  });
  const clean = async () => {
    await upstream.shutdown();
    await Deno.remove(folder, { recursive: true });
  };
  const flags = [
    "--port",
    "0",
    "--workspace",
    workspace,
    "--data",
    data ?? join(folder, "data"),
    "--mcp",
    file,
    ...(asks ? [] : ["--approvals", "allow"]),
  ];
  const env = {
    OPENAI_BASE_URL: `http://127.0.0.1:${upstream.addr.port}/v1`,
    TARE_MODEL: "m",
    // Coverage of the servers is part of their own tests.
    ...Deno.env.get("DENO_DIR") && { DENO_DIR: Deno.env.get("DENO_DIR")! },
  };
  const server = await startProcess(flags, env).catch(async (error) => {
    await clean();
    throw error;
  });
  let isOver = false;
  const end = async (signal: Deno.Signal) => {
    if (isOver) return;
    isOver = true;
    await server.end(signal);
  };
  return {
    url: server.url,
    requests,
    async session(body = {}) {
      const response = await fetch(`${server.url}/tare/v1/sessions`, posted(body));
      assertEquals(response.status, 201);
      return `${server.url}/tare/v1/sessions/${(await response.json()).id}`;
    },
    turn: async (session) =>
      await eventsTo("turn_end", await fetch(`${session}/turns`, posted({ input: "Go." }))),
    async allow(session, decision = "allow") {
      const { lastEvent } = await (await fetch(session)).json();
      const [approval] = (await (await fetch(`${session}/approvals`)).json()).approvals;
      const answered = await fetch(`${session}/approvals/${approval.id}`, {
        ...posted({ decision }),
        headers: { "content-type": "application/json", ...ownerOf(data ?? join(folder, "data")) },
      });
      assertEquals([answered.status, await answered.text() !== ""], [200, true]);
      return await eventsTo("turn_end", await fetch(`${session}/events?after=${lastEvent}`));
    },
    async kill() {
      const { stdout } = await new Deno.Command("ps", { args: ["-A", "-o", "pid=,args="] }).output();
      for (const line of new TextDecoder().decode(stdout).split("\n")) {
        if (!line.includes(file)) continue;
        try {
          Deno.kill(Number.parseInt(line), "SIGKILL");
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
      }
      isOver = true;
      await server.ended;
    },
    async [Symbol.asyncDispose]() {
      await end("SIGTERM");
      await clean();
    },
  };
}

function posted(body: unknown): RequestInit {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

async function eventsTo(type: LoopEvent["type"], response: Response): Promise<readonly LoopEvent[]> {
  assertEquals(response.status, 200);
  const events: LoopEvent[] = [];
  for await (const { data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    if (data) events.push(JSON.parse(data));
    if (events.at(-1)?.type === type) break;
  }
  return events;
}
