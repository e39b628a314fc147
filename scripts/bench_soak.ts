/**
 * Whether a server that is used and abused for minutes ends with the memory and descriptors that it had after its first
 * minute: turns all the time, and in waves idle connections, slow bodies and readers that stall. Each minute ends with
 * a rest, in which V8 gives back what it doesn't need; the least that the process has then counts.
 *
 *     deno task bench:soak [--minutes 5]
 *
 * Memory is read from `/proc`, so this runs on Linux alone.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { formatTable } from "./bench/format_table.ts";
import { percentile } from "./bench/percentile.ts";
import { type AttackedServer, startAttacked } from "./bench/server/attacked_server.ts";
import { flood, HALF_BODY, HALF_HEAD, requestFor } from "./bench/server/flood.ts";
import { importSessions } from "./bench/server/sessions.ts";
import { createSession, playTurn } from "./bench/server/turn.ts";

const WORK_MS = 45_000;
const REST_SECONDS = 15;

/** How long a wave of connections is held. */
const WAVE_MS = 2_000;

/** Turns at a time. */
const AT_ONCE = 4;

/** How much more than after the first minute is no more than chance. */
const MORE_MEMORY = 1.15;
const MORE_DESCRIPTORS = 10;

/** What a minute brought. */
interface Minute {
  readonly turns: number;
  /** How long `GET /health` took on a connection of its own, in milliseconds. */
  readonly health: readonly number[];
  readonly memoryMiB: number;
  readonly descriptors: number;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ args: Deno.args, options: { minutes: { type: "string", default: "5" } } });
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(`${folder}/workspace`);
  try {
    await using server = await startAttacked([
      ...["--workspace", `${folder}/workspace`, "--data", `${folder}/data`],
    ]);
    const text = "A line that nobody reads.\n".repeat(40_000);
    const [long = ""] = await importSessions(server.url, [() => [{ role: "user", content: text }]]);
    const minutes: Minute[] = [];
    while (minutes.length < Number(values.minutes)) {
      minutes.push(await soak(server, long));
      console.error(JSON.stringify({ ...minutes.at(-1), health: undefined }));
    }
    server.signal("SIGTERM");
    const { code, stderr } = await server.ended;
    console.log(report(minutes));
    if (code !== 0 || stderr !== "") throw new Error(`The server ended with ${code}: ${stderr}`);
    if (hasGrown(minutes)) Deno.exit(1);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function soak(server: AttackedServer, long: string): Promise<Minute> {
  const { url } = server;
  const until = performance.now() + WORK_MS;
  const repeat = async (work: () => Promise<void>) => {
    while (performance.now() < until) await work();
  };
  let turns = 0;
  const play = async () => {
    const session = await createSession(url, "rehearsal");
    await playTurn(url, session);
    await (await fetch(`${url}/v1/sessions/${session}`, { method: "DELETE" })).body?.cancel();
    turns++;
  };
  const health: number[] = [];
  const look = async () => {
    const startedAt = performance.now();
    const response = await fetch(`${url}/health`, { headers: { connection: "close" } });
    if (!response.ok) throw new Error(`Cannot go on: /health answered ${response.status}.`);
    await response.body?.cancel();
    health.push(performance.now() - startedAt);
    await pause(50);
  };
  const wave = async () => {
    using _idle = await flood(url, 500);
    using _heads = await flood(url, 100, HALF_HEAD);
    using _bodies = await flood(url, 100, HALF_BODY);
    using _stalled = await flood(url, 20, requestFor(`/v1/sessions/${long}/export`));
    await pause(WAVE_MS);
  };
  await Promise.all([repeat(look), repeat(wave), ...Array.from({ length: AT_ONCE }, () => repeat(play))]);
  const rest = { memoryMiB: Infinity, descriptors: Infinity };
  for (let seconds = 0; seconds < REST_SECONDS; seconds++) {
    await pause(1000);
    const { memoryMiB, descriptors } = await server.state();
    rest.memoryMiB = Math.min(rest.memoryMiB, memoryMiB);
    rest.descriptors = Math.min(rest.descriptors, descriptors);
  }
  return { turns, health, ...rest };
}

function hasGrown(minutes: readonly Minute[]): boolean {
  const [first, last] = [minutes[0], minutes.at(-1)];
  return first !== undefined && last !== undefined &&
    (last.memoryMiB > MORE_MEMORY * first.memoryMiB ||
      last.descriptors > first.descriptors + MORE_DESCRIPTORS);
}

function report(minutes: readonly Minute[]): string {
  const row = ({ turns, health, memoryMiB, descriptors }: Minute, index: number) => [
    String(index + 1),
    String(turns),
    ...[0.5, 0.99, 1].map((share) => percentile(health, share).toFixed(1)),
    memoryMiB.toFixed(0),
    String(descriptors),
  ];
  const head = ["minute", "turns", "health p50 ms", "p99", "most", "memory MiB", "descriptors"];
  const verdict = hasGrown(minutes)
    ? "It has grown since its first minute."
    : "It is as it was after its first minute.";
  return [formatTable([head, ...minutes.map(row)]), "", verdict].join("\n");
}

function pause(ms: number): Promise<void> {
  return new Promise((resume) => setTimeout(resume, ms));
}

await main();
