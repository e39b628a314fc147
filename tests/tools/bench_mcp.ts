/**
 * What MCP servers cost: a call's round trip through them, and what starting ten does to the server's own start.
 * `deno task bench:tools`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { agentServer } from "./agent_server.ts";
import { httpEverything } from "./http_everything.ts";
import { call, tryServers } from "./mcp_client.ts";
import { npmServer, oddServer } from "./mcp_programs.ts";

const CALLS = 1_000;
const STARTS = 5;

function percentile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * share)]!;
}

function line(what: string, times: readonly number[]): void {
  const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
  console.log(
    `${what.padEnd(58)} p50 ${p50.toFixed(2).padStart(8)} ms   p99 ${p99.toFixed(2).padStart(8)} ms`,
  );
}

/** Round trips of a call, the server's own time included, which for these calls is next to none. */
async function calls(): Promise<void> {
  await using web = await httpEverything();
  await using servers = tryServers({
    all: npmServer("everything", "stdio"),
    odd: oddServer("sound"),
    web: { url: web.url },
  });
  const tools = await servers.tools();
  for (
    const [what, name, args] of [
      ["a call by stdio, server-everything", "all__echo", { message: "hi" }],
      ["a call by stdio, a server without a library", "odd__add", { a: 1, b: 2 }],
      ["a call by streamable HTTP, server-everything", "web__echo", { message: "hi" }],
    ] as const
  ) {
    const times: number[] = [];
    for (let i = -100; i < CALLS; i++) {
      const before = performance.now();
      await call(tools, name, { args });
      if (i >= 0) times.push(performance.now() - before);
    }
    line(what, times);
  }
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

await calls();
await starts();
