/**
 * What MCP servers cost: a call's round trip through them, how long others wait while one floods, and what starting ten
 * does to the server's own start. `deno task bench:tools`, or with `calls` or `floods` these alone.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { toolCall } from "@tare/simulator";
import { watchHealth } from "../../scripts/bench/server/slowest_health.ts";
import { agentServer } from "./agent_server.ts";
import { httpEverything } from "./http_everything.ts";
import { call, tryServers } from "./mcp_client.ts";
import { npmServer, oddServer } from "./mcp_programs.ts";

const CALLS = 500;
const WARM_UP = 50;
const STARTS = 5;

function percentile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * share)]!;
}

function line(what: string, times: readonly number[]): void {
  const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
  console.log(
    `${what.padEnd(76)} p50 ${p50.toFixed(2).padStart(8)} ms   p99 ${p99.toFixed(2).padStart(8)} ms`,
  );
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const before = performance.now();
  await work();
  return performance.now() - before;
}

/** The same call in turns: as an agent makes it, and as bytes that are written and read, which is the server's own time. */
async function compare(
  what: string,
  { ours, bare }: Record<"ours" | "bare", () => Promise<unknown>>,
): Promise<void> {
  const times = { ours: [] as number[], bare: [] as number[] };
  for (let i = 0; i < CALLS + WARM_UP; i++) {
    const [own, all] = [await timed(bare), await timed(ours)];
    if (i < WARM_UP) continue;
    times.bare.push(own);
    times.ours.push(all);
  }
  line(what, times.ours);
  line("  the server's own time", times.bare);
  const added = percentile(times.ours, 0.5) - percentile(times.bare, 0.5);
  console.log(`  added to it, by the medians: ${added.toFixed(2)} ms`);
}

const ECHO = { method: "tools/call", params: { name: "echo", arguments: { message: "hi" } } };

async function calls(): Promise<void> {
  await using web = await httpEverything();
  await using program = bareProgram(npmServer("everything", "stdio"));
  await using servers = tryServers({ all: npmServer("everything", "stdio"), web: { url: web.url } });
  const tools = await servers.tools();
  const echo = (name: string) => () => call(tools, name, { args: { message: "hi" } });
  await compare("a call by stdio (server-everything's echo)", {
    ours: echo("all__echo"),
    bare: () => program.ask(ECHO),
  });
  const ask = await bareHttp(web.url);
  await compare("a call by streamable HTTP (the same)", { ours: echo("web__echo"), bare: () => ask(ECHO) });
}

const INITIALIZE = {
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "bare", version: "1" } },
};

/** A program that is spoken with by hand: a line for a line. */
function bareProgram({ command, args, env }: ReturnType<typeof npmServer>) {
  const child = new Deno.Command(command, {
    ...{ args: [...args], env },
    ...{ stdin: "piped", stdout: "piped", stderr: "null" },
  }).spawn();
  const writer = child.stdin.getWriter();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const encoder = new TextEncoder();
  const write = (message: object) =>
    writer.write(encoder.encode(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`));
  let said = "";
  const ask = async (message: object) => {
    await write({ id: 1, ...message });
    while (!said.includes('"id":1')) said += (await reader.read()).value ?? "";
    said = "";
  };
  const ready = ask(INITIALIZE).then(() => write({ method: "notifications/initialized" }));
  return {
    ask: async (message: object) => {
      await ready;
      await ask(message);
    },
    async [Symbol.asyncDispose]() {
      await reader.cancel();
      await writer.close();
      await child.status;
    },
  };
}

/** A server at an address that is spoken with by hand. */
async function bareHttp(url: string): Promise<(message: object) => Promise<unknown>> {
  let session: Record<string, string> = {};
  const post = async (message: object) => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...session,
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
    await response.text();
    return response.headers.get("mcp-session-id");
  };
  session = { "mcp-session-id": `${await post({ id: 1, ...INITIALIZE })}` };
  await post({ method: "notifications/initialized" });
  return (message) => post({ id: 2, ...message });
}

/** From the start command to the first answer of `/health`, and from there to the first turn's first model call. */
async function starts(): Promise<void> {
  const ten = Object.fromEntries(
    Array.from({ length: 10 }, (_, i) => [`s${i}`, npmServer("everything", "stdio")]),
  );
  for (
    const [what, mcp, used] of [
      ["no server", {}, []],
      ["ten, one of which never answers; the session uses none", { ...ten, s9: oddServer("silent") }, []],
      ["ten, one of which never answers; the session uses one", { ...ten, s9: oddServer("silent") }, [
        "s0__*",
      ]],
      ["ten; the session uses all", ten, Object.keys(ten).map((name) => `${name}__*`)],
    ] as const
  ) {
    const health: number[] = [];
    const turn: number[] = [];
    for (let run = 0; run < STARTS; run++) {
      const before = performance.now();
      await using server = await agentServer({ mcp, replies: [{ content: "Done." }] });
      await (await fetch(`${server.url}/health`)).text();
      health.push(performance.now() - before);
      await server.turn(await server.session({ tools: used }));
      turn.push(performance.now() - before);
    }
    line(`to /health: ${what}`, health);
    line(`to the end of a first turn: ${what}`, turn);
  }
}

/** How long others wait for an answer at most while a server floods, which has 900 tools that change with every look. */
async function floods(): Promise<void> {
  for (const flood of ["flood_notes", "flood_changes", "flood_asks", "flood_answers"]) {
    const replies = [{ tool_calls: [toolCall(`odd__${flood}`, { times: 200_000 })] }, { content: "Done." }];
    await using server = await agentServer({ mcp: { odd: oddServer("crowd") }, replies });
    const session = await server.session({ tools: [`odd__${flood}`] });
    const health = watchHealth(server.url);
    const before = performance.now();
    await server.turn(session);
    const took = performance.now() - before;
    console.log(
      `200,000 times ${flood}: the turn took ${took.toFixed(0)} ms, /health at most ${
        (await health.stop()).toFixed(0)
      } ms`,
    );
  }
}

const only = Deno.args[0];
if (only !== "floods") await calls();
if (only !== "calls") await floods();
if (only === undefined) await starts();
