/**
 * Measures the server against a simulated provider: turns per second, what it adds to each step, memory, resume and
 * start times. Server and provider are processes of their own and talk HTTP. `scripts/bench/timed_server.ts` says
 * what counts as added.
 *
 *     deno task bench:server [--json] [--idle-sessions 1000]
 *
 * Memory is read from `/proc`, so this runs on Linux alone.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { fromFileUrl } from "@std/path";
import { formatTable } from "./bench/format_table.ts";
import { startListening } from "./bench/server_listening.ts";
import { type Load, measureLoad } from "./bench/server_load.ts";
import { measureRest, type Rest } from "./bench/server_rest.ts";
import { measureStart, type Start } from "./bench/server_start.ts";

/** At the provider's own speed the server is the bottleneck; with a second's thinking it is as in use. */
const LOADS = [
  { sessions: 1, turns: 100, thinkMs: 0 },
  { sessions: 50, turns: 10, thinkMs: 0 },
  { sessions: 500, turns: 1, thinkMs: 0 },
  { sessions: 1, turns: 4, thinkMs: 1000 },
  { sessions: 50, turns: 4, thinkMs: 1000 },
  { sessions: 500, turns: 2, thinkMs: 1000 },
];

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: { json: { type: "boolean" }, "idle-sessions": { type: "string", default: "1000" } },
  });
  const folder = await Deno.makeTempDir();
  const workspace = `${folder}/workspace`;
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(`${workspace}/notes.txt`, "A line of the file that is read.\n".repeat(40));
  try {
    await using provider = await startListening(["--allow-net=127.0.0.1", script("server_provider")]);
    const loads = await measureLoads(`${folder}/load`, workspace, provider.url);
    const starts = await measureStart(["--data", `${folder}/start`, "--workspace", workspace]);
    const rest = await measureRest({
      provider: provider.url,
      data: `${folder}/rest`,
      workspace,
      idleSessions: Number(values["idle-sessions"]),
    });
    console.log(values.json ? JSON.stringify({ loads, starts, rest }) : report({ loads, starts, rest }));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function measureLoads(data: string, workspace: string, provider: string): Promise<Load[]> {
  await using server = await startListening([
    "--allow-net=127.0.0.1",
    `--allow-read=${data},${workspace}`,
    `--allow-write=${data},${workspace}`,
    ...[script("timed_server"), data, workspace, provider],
  ]);
  // What runs for the first time is compiled first.
  await measureLoad({ server: server.url, sessions: 5, turns: 10, thinkMs: 0 });
  const loads: Load[] = [];
  for (const load of LOADS) loads.push(await measureLoad({ server: server.url, ...load }));
  return loads;
}

function report({ loads, starts, rest }: {
  readonly loads: readonly Load[];
  readonly starts: { readonly start: Start; readonly main: Start };
  readonly rest: Rest;
}): string {
  const ms = (value: number) => value.toFixed(1);
  const loadRows = loads.map((load) => [
    String(load.sessions),
    `${load.thinkMs} ms`,
    ms(load.turnsPerSecond),
    ...[load.addedP50Ms, load.addedP99Ms, load.seenP50Ms, load.seenP99Ms].map(ms),
    ...[load.firstEventP50Ms, load.firstEventP99Ms].map(ms),
  ]);
  const head = [
    ...["sessions", "thinking", "turns/s", "added p50", "p99"],
    ...["seen p50", "p99", "first event p50", "p99"],
  ];
  const startRow = (name: string, { bestMs, medianMs }: Start) => [name, "", ms(bestMs), ms(medianMs)];
  return [
    "Steps, in ms: added by the server's own stopwatch; seen by the client beyond the provider's thinking",
    formatTable([head, ...loadRows]),
    "",
    "Start to the first /health, in ms",
    formatTable([
      ["process", "", "best", "median"],
      startRow("start", starts.start),
      startRow("main", starts.main),
    ]),
    "",
    `Resident memory, in MiB: ${ms(rest.freshMiB)} after the start; ${
      ms(rest.idleMiB)
    } with ${rest.idleSessions} ` +
    `idle sessions of ${rest.idleTokens} tokens, all used before; ${ms(rest.peakMiB)} at the highest`,
    `A session of ${rest.resumeTokens} tokens after a restart, in ms: ${
      ms(rest.resumeReadMs)
    } until it is read, ` +
    `${ms(rest.resumeFirstEventMs)} until a turn's first event, ${
      ms(rest.resumeFirstReplyMs)
    } until its first reply`,
  ].join("\n");
}

function script(name: string): string {
  return fromFileUrl(new URL(`bench/${name}.ts`, import.meta.url));
}

await main();
