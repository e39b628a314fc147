/**
 * Measures what the gateway adds to the first byte of a reply, and the processor time, disk writes and memory that it takes,
 * compared with a bare proxy, one that holds bodies and hands each event on by itself, a gateway that keeps nothing of
 * conversations, and the same calls made directly. A second process of the same gateway shows what differs by chance.
 *
 *     deno task bench:gateway [--streams 20] [--tokens 100000] [--rounds 2] [--following 2000]
 *
 * Each stream sends a growing conversation, as agents do: reads the reply, pauses as long as a tool would take, and sends
 * all of it again with one more call and result. Clients, provider and systems are processes of their own. The systems take
 * turns, round by round, so that other load on the machine affects them all. What a system adds is the difference of its
 * percentile to that of the direct calls over all rounds. Requests that open a session are a separate column: nothing is
 * known of their conversation. Each system gets at least `--following` others: a p99 of few is chance.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { formatTable } from "../../../scripts/format_table.ts";
import { percentile } from "../../../scripts/percentile.ts";
import type { FirstBytes } from "./streams.ts";
import { memoryOf, startScript, startSystems, type System, takenBy } from "./systems.ts";

/** Events of a reply and their distance, and the longest pause between requests. */
const LOAD = { chunks: 20, intervalMs: 20, pauseMs: 1_000 };

/** Requests of a session. */
const REQUESTS = 8;

/** What one system has shown. */
interface Shown {
  readonly opening: number[];
  readonly following: number[];
  cpuMs: number;
  written: number;
  memory: number;
}

const { values } = parseArgs({
  options: {
    streams: { type: "string", default: "20" },
    tokens: { type: "string", default: "100000" },
    rounds: { type: "string", default: "2" },
    following: { type: "string", default: "2000" },
  },
});
const [streams, rounds] = [Number(values.streams), Number(values.rounds)];
const sessions = Math.ceil(Number(values.following) / (rounds * streams * (REQUESTS - 1)));

await using load = startScript("streams.ts", values.tokens, String(REQUESTS));
const { tokens, bytes } = JSON.parse(await load.line());
console.log(`${navigator.hardwareConcurrency} processors, ${rounds} rounds of ${streams} streams.`);
console.log(`Prompts from ${tokens.join(" to ")} tokens, the last of ${bytes} bytes.\n`);
await using upstream = startScript("upstream.ts");
const origin = `http://127.0.0.1:${Number(await upstream.line())}`;
const systems = await startSystems(`${origin}/paced/${LOAD.chunks}/${LOAD.intervalMs}/v1`);
await using stack = new AsyncDisposableStack();
for (const system of systems) stack.use(system);

async function play({ baseURL }: System, options: object): Promise<FirstBytes> {
  await load.write(JSON.stringify({ baseURL, pauseMs: LOAD.pauseMs, ...options }));
  return JSON.parse(await load.line());
}

const cell = new Map<System, Shown>();
for (const system of systems) {
  cell.set(system, { opening: [], following: [], cpuMs: 0, written: 0, memory: 0 });
  // Until the compilers have seen the code, no process is itself.
  await play(system, { streams: 1, sessions: 3, pauseMs: 0, run: "w" });
}
for (let round = 0; round < rounds; round++) {
  for (const [system, shown] of cell) {
    const { pid } = system;
    const before = pid === undefined ? undefined : await takenBy(pid);
    const { opening, following } = await play(system, { streams, sessions, run: `${round}` });
    shown.opening.push(...opening);
    shown.following.push(...following);
    if (!before || pid === undefined) continue;
    const { cpuMs, written } = await takenBy(pid);
    shown.cpuMs += cpuMs - before.cpuMs;
    shown.written += written - before.written;
    shown.memory = Math.max(shown.memory, await memoryOf(pid));
  }
}
const direct = cell.get(systems[0]!)!;
const rows = [...cell].map(([{ name, pid }, shown]) => {
  const of = (times: "opening" | "following", share: number) => percentile(shown[times], share);
  const added = (times: "opening" | "following", share: number) =>
    (of(times, share) - percentile(direct[times], share)).toFixed(1);
  const requests = shown.opening.length + shown.following.length;
  return [
    ...[name, "", of("following", 0.5).toFixed(1), of("following", 0.99).toFixed(1)],
    ...(pid === undefined ? [] : [
      ...[added("following", 0.5), added("following", 0.99), added("opening", 0.5), added("opening", 0.99)],
      ...[shown.cpuMs, shown.written / 1024].map((all) => (all / requests).toFixed(1)),
      (shown.memory / 2 ** 20).toFixed(0),
    ]),
  ];
});
const head = ["system", "", "p50 ms", "p99 ms", "added p50", "added p99", "opening: added p50", "p99"];
console.log("Time to the first byte of the reply, and what a request takes");
console.log(formatTable([[...head, "CPU ms/request", "KiB written", "MiB"], ...rows]));
