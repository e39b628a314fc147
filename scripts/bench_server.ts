/**
 * Measures the server against a simulated provider: turns per second, what it adds to each step, what a step writes,
 * memory, resume and start times. Server and provider are processes of their own and talk HTTP.
 * `scripts/bench/server/timed_server.ts` says what counts as added.
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
import { percentile } from "./bench/percentile.ts";
import { type Listening, startListening } from "./bench/server/listening.ts";
import { type Load, measureLoad } from "./bench/server/load.ts";
import { type Manner, measureWrites, type Writes } from "./bench/server/writes.ts";
import { measureRest, type Rest, startMain } from "./bench/server/rest.ts";

/** At the provider's own speed the server is the bottleneck; with a second's thinking it is as in use. */
const LOADS = [
  { sessions: 1, turns: 100, thinkMs: 0 },
  { sessions: 50, turns: 10, thinkMs: 0 },
  { sessions: 500, turns: 1, thinkMs: 0 },
  { sessions: 1, turns: 4, thinkMs: 1000 },
  { sessions: 50, turns: 4, thinkMs: 1000 },
  { sessions: 500, turns: 2, thinkMs: 1000 },
];

/** What a step writes depends on how fast the model speaks. */
const MANNERS: readonly Manner[] = [
  { sessions: 10, words: 100, perSecond: 80 },
  { sessions: 10, words: 100, perSecond: Infinity },
];

const PROVIDER = fromFileUrl(new URL("./bench/server/provider.ts", import.meta.url));
const TIMED_SERVER = fromFileUrl(new URL("./bench/server/timed_server.ts", import.meta.url));

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
    await using provider = await startListening(["--allow-net=127.0.0.1", PROVIDER]);
    const measured = await measureLoads(`${folder}/load`, workspace, provider.url);
    const starts = await measureStart(["--data", `${folder}/start`, "--workspace", workspace]);
    const rest = await measureRest({
      provider: provider.url,
      data: `${folder}/rest`,
      workspace,
      idleSessions: Number(values["idle-sessions"]),
    });
    const all = { ...measured, starts, rest };
    console.log(values.json ? JSON.stringify(all) : report(all));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function measureLoads(
  data: string,
  workspace: string,
  provider: string,
): Promise<{ readonly loads: readonly Load[]; readonly writes: readonly Writes[] }> {
  await using server = await startListening([
    "--allow-net=127.0.0.1",
    `--allow-read=${data},${workspace}`,
    `--allow-write=${data},${workspace}`,
    ...[TIMED_SERVER, data, workspace, provider],
  ]);
  // What runs for the first time is compiled first.
  await measureLoad({ server: server.url, sessions: 5, turns: 10, thinkMs: 0 });
  const loads: Load[] = [];
  for (const load of LOADS) loads.push(await measureLoad({ server: server.url, ...load }));
  const writes: Writes[] = [];
  for (const manner of MANNERS) writes.push(await measureWrites(server, manner));
  return { loads, writes };
}

/** From the start of a process to its first answer to `GET /health`, in milliseconds. */
interface Start {
  readonly bestMs: number;
  readonly medianMs: number;
}

const RUNS = 5;

/** Measures the start of the start command, and of the process that it starts; Deno's cache is warm. */
async function measureStart(
  flags: readonly string[],
): Promise<{ readonly start: Start; readonly main: Start }> {
  const folder = fromFileUrl(new URL("../", import.meta.url));
  const { tasks } = JSON.parse(await Deno.readTextFile(`${folder}deno.json`));
  const command: string[] = tasks.start.command.split(" ").slice(2);
  const startCommand = [...command.slice(0, -1), `${folder}${command.at(-1)}`, "--port", "0", ...flags];
  return {
    start: await measure(() => startListening(startCommand)),
    main: await measure(() => startMain(flags)),
  };
}

async function measure(start: () => Promise<Listening>): Promise<Start> {
  const times: number[] = [];
  for (let run = 0; run <= RUNS; run++) {
    await using server = await start();
    await (await fetch(`${server.url}/health`)).text();
    // The first run only warms the cache.
    if (run > 0) times.push(server.elapsedMs());
  }
  return { bestMs: Math.min(...times), medianMs: percentile(times, 0.5) };
}

function report({ loads, writes, starts, rest }: {
  readonly loads: readonly Load[];
  readonly writes: readonly Writes[];
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
  const writesRows = writes.map((manner) => [
    String(manner.perSecond),
    manner.commits.toFixed(2),
    ...[manner.bytes, manner.diskBytes].map((bytes) => bytes.toFixed(0)),
    ...[manner.firstDeltaP50Ms, manner.firstDeltaP99Ms].map(ms),
  ]);
  const writesHead = ["words/s", "commits", "bytes", "to the disk", "first word p50", "p99"];
  const startRow = (name: string, { bestMs, medianMs }: Start) => [name, "", ms(bestMs), ms(medianMs)];
  return [
    "Steps, in ms: added by the server's own stopwatch; seen by the client beyond the provider's thinking",
    formatTable([head, ...loadRows]),
    "",
    "What a step of 100 words and a call writes; from the request to the first word, beyond the thinking, in ms",
    formatTable([writesHead, ...writesRows]),
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

await main();
