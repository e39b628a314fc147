/**
 * Measures what the gateway adds to a call: time to the first byte, and bytes per second of replies, beside the same
 * calls made directly, in one run. Provider and gateway are processes of their own; this one plays the clients.
 *
 *     deno task bench:gateway [--streams N]…
 *
 * Each stream sends a growing conversation of about 100,000 tokens, as agents do: reads the reply, pauses as long as
 * a tool would take, and sends all of it again with one more call and result. `bypassed` calls go through the gateway
 * with `x-tare: off`: what a second HTTP hop costs, without any work on the prompt.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { fromFileUrl } from "@std/path";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { formatTable } from "./bench/format_table.ts";
import { percentile } from "./bench/percentile.ts";
import { type GrowingSession, growingSession, playStreams, readBulk } from "./bench/gateway/streams.ts";

/** By streams: sessions of each, events of a reply and their distance, and the longest pause between requests. */
const LOADS: Readonly<
  Record<string, { sessions: number; chunks: number; intervalMs: number; pauseMs: number }>
> = {
  1: { sessions: 20, chunks: 5, intervalMs: 2, pauseMs: 20 },
  20: { sessions: 2, chunks: 20, intervalMs: 20, pauseMs: 500 },
  100: { sessions: 1, chunks: 20, intervalMs: 50, pauseMs: 2_000 },
};

const UPSTREAM = new URL("./bench/gateway/upstream.ts", import.meta.url);
const SERVER = new URL("./bench/gateway/server.ts", import.meta.url);

const REQUESTS = 13;
const BULK_MEGABYTES = 100;

interface Process extends AsyncDisposable {
  readonly origin: string;
}

/** Starts a script of the bench, which prints its port. */
async function start(script: URL, ...args: string[]): Promise<Process> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", fromFileUrl(script), ...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await output.read();
  return {
    origin: `http://127.0.0.1:${Number(value)}`,
    async [Symbol.asyncDispose]() {
      await child.stdin.close();
      if (script === UPSTREAM) child.kill();
      await child.status;
      await output.cancel();
    },
  };
}

async function measureLatency(
  session: GrowingSession,
  { streams, parseMs }: { readonly streams: number; readonly parseMs: number },
): Promise<string[][]> {
  const load = LOADS[streams];
  if (!load) throw new RangeError(`Cannot measure ${streams} streams: it is none of ${Object.keys(LOADS)}`);
  await using upstream = await start(UPSTREAM);
  const direct = `${upstream.origin}/paced/${load.chunks}/${load.intervalMs}/v1`;
  await using gateway = await start(SERVER, direct);
  const through = { baseURL: `${gateway.origin}/v1` };
  const ways = {
    direct: { baseURL: direct },
    bypassed: { ...through, headers: { "x-tare": "off" } },
    gateway: through,
  };
  // Until the compilers have seen the code, no process is itself.
  for (const way of Object.values(ways)) {
    await playStreams(session, { ...way, streams: 1, sessions: 1, pauseMs: 0 });
  }
  const rows: string[][] = [];
  let base: readonly number[] = [];
  for (const [name, way] of Object.entries(ways)) {
    const { opening, following } = await playStreams(session, { ...way, ...load, streams });
    if (name === "direct") base = following;
    const [p50, p99] = [0.5, 0.99].map((share) => percentile(following, share)) as [number, number];
    const [added50, added99] = [p50 - percentile(base, 0.5), p99 - percentile(base, 0.99)];
    rows.push([
      String(streams),
      name,
      String(following.length),
      p50.toFixed(2),
      p99.toFixed(2),
      ...(name === "direct"
        ? ["", "", ""]
        : [added50, added99, added50 - parseMs].map((ms) => ms.toFixed(2))),
      percentile(opening, 0.5).toFixed(1),
    ]);
  }
  return rows;
}

async function measureBulk(streams: number): Promise<string[][]> {
  await using upstream = await start(UPSTREAM);
  const direct = `${upstream.origin}/bulk/${Math.ceil(BULK_MEGABYTES / streams)}/v1`;
  await using gateway = await start(SERVER, direct);
  const rows: string[][] = [];
  for (const [name, baseURL] of Object.entries({ direct, gateway: `${gateway.origin}/v1` })) {
    await readBulk(baseURL, 1);
    rows.push([String(streams), name, (await readBulk(baseURL, streams) / 1e6).toFixed(0)]);
  }
  return rows;
}

/** Median time to read and parse a body here, alone. */
function measureParsing(session: GrowingSession): number {
  const times: number[] = [];
  for (let round = 0; round < 100; round++) {
    const body = session.body(`parse-${round}`, round % session.requests);
    const startMs = performance.now();
    JSON.parse(new TextDecoder().decode(body));
    times.push(performance.now() - startMs);
  }
  return percentile(times, 0.5);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: { streams: { type: "string", multiple: true, default: Object.keys(LOADS) } },
  });
  const { count } = await loadTokenizer();
  const session = growingSession(REQUESTS, count);
  const parseMs = measureParsing(session);
  const [first, last] = session.tokens;
  console.log(
    `Prompts grow from ${first} to ${last} tokens, ${session.body("0-0", REQUESTS - 1).length} bytes. ` +
      `Parsing one takes ${parseMs.toFixed(2)} ms. ${navigator.hardwareConcurrency} processors.\n`,
  );
  const latency: string[][] = [[
    "streams",
    "way",
    "requests",
    "p50 ms",
    "p99 ms",
    "added p50",
    "added p99",
    "p50 beyond parsing",
    "first of session p50",
  ]];
  const bulk: string[][] = [["streams", "way", "MB/s"]];
  for (const streams of values.streams.map(Number)) {
    latency.push(...await measureLatency(session, { streams, parseMs }));
    bulk.push(...await measureBulk(streams));
  }
  console.log(`Time to the first byte of the reply\n${formatTable(latency)}\n`);
  console.log(`Bytes of replies passed on\n${formatTable(bulk)}`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exitCode = 1;
  }
}
