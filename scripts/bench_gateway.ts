/**
 * Measures what the gateway adds to the first byte of a reply and to its end, and what memory, processor time and disk
 * it takes, beside a bare proxy, one that holds bodies and hands each event on by itself, Portkey's gateway from npm, one
 * that keeps nothing of conversations, and the same calls made directly. A second process of the same gateway says what
 * differs by chance.
 *
 *     deno task bench:gateway [--whole] [--streams N]… [--tokens N]… [--rounds N]
 *
 * Each stream sends a growing conversation, as agents do: reads the reply, pauses as long as a tool would take, and
 * sends all of it again with one more call and result. Clients, provider and systems are processes of their own.
 * Within a cell the systems take turns, round by round, so that what else the machine does meets them all; what a
 * system adds is the difference of its percentile to that of the direct calls over all rounds. Requests that open a
 * session stand apart: nothing is known of their conversation. Of the others each system gets 2,000 at least.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import {
  memoryOf,
  type Process,
  startScript,
  startSystems,
  type System,
  takenBy,
} from "./bench/gateway/systems.ts";
import type { FirstBytes, StreamOptions } from "./bench/gateway/streams.ts";
import { formatTable } from "./bench/format_table.ts";
import { percentile } from "./bench/percentile.ts";

/** By streams: events of a reply and their distance, the longest pause between requests. */
const LOADS: Readonly<Record<string, { chunks: number; intervalMs: number; pauseMs: number }>> = {
  1: { chunks: 5, intervalMs: 2, pauseMs: 20 },
  20: { chunks: 20, intervalMs: 20, pauseMs: 1_000 },
  100: { chunks: 20, intervalMs: 50, pauseMs: 5_000 },
};

const TOKENS = [10_000, 100_000, 200_000];

/** Requests of a session. */
const REQUESTS = 8;

/** So many requests that go on with a session each system gets at least: a p99 of fewer is chance. */
const LEAST_FOLLOWING = 2_000;

/** After so long without a request memory is read once more. */
const REST_MS = 5_000;

const SAMPLE_MS = 100;

/** What one system has shown in a cell. */
interface Shown {
  readonly opening: number[];
  readonly following: number[];
  readonly rest: number[];
  cpuMs: number;
  written: number;
  atRest: number;
  most: number;
  after: number;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      whole: { type: "boolean", default: false },
      streams: { type: "string", multiple: true },
      tokens: { type: "string", multiple: true },
      rounds: { type: "string" },
    },
  });
  const streams = values.streams?.map(Number) ?? (values.whole ? Object.keys(LOADS).map(Number) : [20]);
  const tokens = values.tokens?.map(Number) ?? (values.whole ? TOKENS : [100_000]);
  const rounds = Number(values.rounds ?? (values.whole ? 3 : 2));
  console.log(`${navigator.hardwareConcurrency} processors; ${rounds} rounds.\n`);
  const latency = [["streams", "system", "tokens", "p50 ms", "p99 ms", "added p50", "added p99"]
    .concat(["opening: added p50", "p99"])];
  const ends = [["streams", "system", "tokens", "rest p50 ms", "p99 ms", "CPU ms/request", "KiB written"]];
  const memory = [["streams", "system", "tokens", "MiB at rest", "at most", `after ${REST_MS / 1000} s`]];
  for (const size of tokens) {
    await using load = startScript("streams.ts", String(size), String(REQUESTS));
    const sessions = JSON.parse(await load.line());
    console.log(`Prompts from ${sessions.tokens.join(" to ")} tokens, the last of ${sessions.bytes} bytes.`);
    for (const count of streams) {
      const cell = await measure(load, { streams: count, rounds });
      const base = cell.get("direct")!;
      for (const [name, shown] of cell) {
        const added = (times: "opening" | "following", share: number) =>
          (percentile(shown[times], share) - percentile(base[times], share)).toFixed(1);
        latency.push([
          String(count),
          name,
          String(size),
          ...[0.5, 0.99].map((share) => percentile(shown.following, share).toFixed(1)),
          ...(shown === base ? [] : [
            added("following", 0.5),
            added("following", 0.99),
            added("opening", 0.5),
            added("opening", 0.99),
          ]),
        ]);
        const { rest } = shown;
        ends.push([
          ...[String(count), name, String(size)],
          ...[0.5, 0.99].map((share) => percentile(rest, share).toFixed(1)),
          ...(shown === base
            ? []
            : [shown.cpuMs, shown.written / 1024].map((all) => (all / rest.length).toFixed(1))),
        ]);
        if (shown === base) continue;
        const mebibytes = [shown.atRest, shown.most, shown.after].map((bytes) =>
          (bytes / 2 ** 20).toFixed(0)
        );
        memory.push([String(count), name, String(size), ...mebibytes]);
      }
    }
  }
  console.log(`\nTime to the first byte of the reply\n${formatTable(latency)}`);
  console.log(`\nFrom the first byte to the end, and what a request takes\n${formatTable(ends)}`);
  console.log(`\nResident memory\n${formatTable(memory)}`);
}

/** Lets the systems take turns. */
async function measure(
  load: Process,
  { streams, rounds }: { readonly streams: number; readonly rounds: number },
): Promise<ReadonlyMap<string, Shown>> {
  const { chunks, intervalMs, pauseMs } = LOADS[streams] ?? missing(streams);
  const sessions = Math.ceil(LEAST_FOLLOWING / (rounds * streams * (REQUESTS - 1)));
  await using upstream = startScript("upstream.ts");
  const origin = `http://127.0.0.1:${Number(await upstream.line())}`;
  const systems = await startSystems(`${origin}/paced/${chunks}/${intervalMs}/v1`);
  await using stack = new AsyncDisposableStack();
  for (const system of systems) stack.use(system);
  const cell = new Map<string, Shown>();
  const play = async (system: System, options: Omit<StreamOptions, "baseURL" | "headers">) => {
    const { baseURL, headers } = system;
    await load.write(JSON.stringify({ baseURL, headers, ...options }));
    return JSON.parse(await load.line()) as FirstBytes;
  };
  for (const system of systems) {
    const atRest = system.pid === undefined ? 0 : await memoryOf(system.pid);
    cell.set(system.name, {
      ...{ opening: [], following: [], rest: [], cpuMs: 0, written: 0 },
      ...{ atRest, most: atRest, after: 0 },
    });
    // Until the compilers have seen the code, no process is itself.
    await play(system, { streams: 1, sessions: 3, pauseMs: 0, run: "w" });
  }
  for (let round = 0; round < rounds; round++) {
    for (const system of systems) {
      const shown = cell.get(system.name)!;
      const { pid } = system;
      const sampling = pid === undefined ? undefined : setInterval(async () => {
        shown.most = Math.max(shown.most, await memoryOf(pid).catch(() => 0));
      }, SAMPLE_MS);
      const before = pid === undefined ? undefined : await takenBy(pid);
      const run = { streams, sessions, pauseMs, run: String(round) };
      const { opening, following, rest } = await play(system, run);
      clearInterval(sampling);
      if (before && pid !== undefined) {
        const { cpuMs, written } = await takenBy(pid);
        shown.cpuMs += cpuMs - before.cpuMs;
        shown.written += written - before.written;
      }
      shown.rest.push(...rest);
      shown.opening.push(...opening);
      shown.following.push(...following);
    }
  }
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  for (const { name, pid } of systems) if (pid !== undefined) cell.get(name)!.after = await memoryOf(pid);
  return cell;
}

function missing(streams: number): never {
  throw new RangeError(`Cannot measure ${streams} streams: it is none of ${Object.keys(LOADS).join(", ")}`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exitCode = 1;
  }
}
