/**
 * Measures what the gateway adds to the first byte of a reply, and its processor time, disk writes and
 * memory, compared with a bare proxy, a proxy that buffers bodies and forwards each event by itself, a
 * gateway that stores no conversations, and direct calls. A second process of the same gateway shows random
 * differences.
 *
 *     deno task bench gateway [--streams 20] [--tokens 100000] [--rounds 2] [--following 2000]
 *
 * Each stream sends a growing conversation, as agents do: reads the reply, pauses as long as a tool would
 * take, and sends all of it again with one more call and result. Provider and systems are processes of their
 * own. The systems take turns, round by round, so that other load affects them all. A system's overhead is
 * the difference of its percentile to that of direct calls over all rounds. Requests that open a session are
 * a separate column: their conversation is new. Each system gets at least `--following` others: a p99 of few
 * is chance.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { fromFileUrl } from "@std/path";
import { loadTokenizer } from "@tare/tiktoken";
import { formatTable } from "../../../scripts/format_table.ts";
import { percentile } from "../../../scripts/percentile.ts";
import { type Listening, startListening, startMain } from "../../listening.ts";
import { cpuMs, memoryOf, writtenBytes } from "../../process_usage.ts";
import { growingSession } from "./growing_session.ts";

const { values } = parseArgs({
  options: {
    streams: { type: "string", default: "20" },
    tokens: { type: "string", default: "100000" },
    rounds: { type: "string", default: "2" },
    following: { type: "string", default: "2000" },
  },
});

/** Events of a reply, their interval, and the longest pause between requests. */
const LOAD = { chunks: 20, intervalMs: 20, pauseMs: 1_000 };

const REQUESTS = 8;

const [streams, rounds] = [Number(values.streams), Number(values.rounds)];
const sessions = Math.ceil(Number(values.following) / (rounds * streams * (REQUESTS - 1)));
const { count } = await loadTokenizer();
const { tokens, bodies } = growingSession({ tokens: Number(values.tokens), requests: REQUESTS }, count);
const folder = await Deno.makeTempDir();

interface System {
  readonly name: string;
  readonly process?: Listening;
  readonly baseURL: string;
  /** Times to a reply's first byte, in milliseconds: of requests that open a session, and of others. */
  readonly opening: number[];
  readonly following: number[];
  cpuMs: number;
  written: number;
  memory: number;
}

function system(
  name: string,
  address: { readonly process: Listening } | { readonly baseURL: string },
): System {
  const baseURL = "process" in address ? `${address.process.url.replace(/\/v1$/, "")}/v1` : address.baseURL;
  return { name, ...address, baseURL, opening: [], following: [], cpuMs: 0, written: 0, memory: 0 };
}

function upstream(...args: readonly string[]): Promise<Listening> {
  return startListening([
    "--allow-net=127.0.0.1",
    fromFileUrl(new URL("./upstream.ts", import.meta.url)),
    ...args,
  ]);
}

function gateway(baseURL: string, ...more: readonly string[]): Promise<Listening> {
  const data = `${folder}/${crypto.randomUUID()}`;
  const flags = ["--data", data, "--workspace", folder, "--base-url", baseURL, "--model", "gpt-5"];
  return startMain([...flags, "--profile", "openai", ...more]);
}

async function play(
  { baseURL, opening, following }: Pick<System, "baseURL" | "opening" | "following">,
  { streams, sessions, pauseMs, run }: Record<"streams" | "sessions" | "pauseMs", number> & {
    readonly run: string;
  },
): Promise<void> {
  await Promise.all(Array.from({ length: streams }, async (_, stream) => {
    for (let session = 0; session < sessions; session++) {
      for (const [request, bodyOf] of bodies.entries()) {
        await new Promise((resolve) => setTimeout(resolve, pauseMs * Math.random()));
        const body = bodyOf(`${run}.${stream}.${session}`);
        (request === 0 ? opening : following).push(await firstByteMs(`${baseURL}/chat/completions`, body));
      }
    }
  }));
}

async function firstByteMs(url: string, body: string): Promise<number> {
  const startMs = performance.now();
  const headers = { "content-type": "application/json", authorization: "Bearer none" };
  const response = await fetch(url, { method: "POST", headers, body });
  if (!response.ok) {
    throw new Error(`Cannot measure: the answer is ${response.status} ${await response.text()}`);
  }
  let firstMs: number | undefined;
  for await (const _ of response.body ?? []) firstMs ??= performance.now();
  if (firstMs === undefined) throw new Error("Cannot measure: the reply is empty");
  return firstMs - startMs;
}

console.log(`${navigator.hardwareConcurrency} processors, ${rounds} rounds of ${streams} streams.`);
console.log(`Prompts from ${tokens.join(" to ")} tokens, the last of ${bodies.at(-1)!("").length} bytes.\n`);
await using stack = new AsyncDisposableStack();
stack.defer(() => Deno.remove(folder, { recursive: true }));
const provider = stack.use(await upstream());
const baseURL = `${provider.url}/paced/${LOAD.chunks}/${LOAD.intervalMs}/v1`;
const direct = system("direct", { baseURL });
const systems = [
  direct,
  system("bare proxy", { process: stack.use(await upstream(baseURL)) }),
  system("holding proxy", { process: stack.use(await upstream(baseURL, "holding")) }),
  system("gateway", { process: stack.use(await gateway(baseURL)) }),
  system("gateway again", { process: stack.use(await gateway(baseURL)) }),
  system("keeping nothing", { process: stack.use(await gateway(baseURL, "--gateway-store", "off")) }),
];
// Warm-up for the JIT compilers.
for (const { baseURL } of systems) {
  await play({ baseURL, opening: [], following: [] }, { streams: 1, sessions: 3, pauseMs: 0, run: "w" });
}
for (let round = 0; round < rounds; round++) {
  for (const system of systems) {
    const pid = system.process?.pid;
    const before = pid === undefined ? [0, 0] as const : [cpuMs(pid), writtenBytes(pid)] as const;
    await play(system, { streams, sessions, pauseMs: LOAD.pauseMs, run: `${round}` });
    if (pid === undefined) continue;
    system.cpuMs += cpuMs(pid) - before[0];
    system.written += writtenBytes(pid) - before[1];
    system.memory = Math.max(system.memory, memoryOf(pid));
  }
}
const rows = systems.map((system) => {
  const added = (times: "opening" | "following", share: number) =>
    (percentile(system[times], share) - percentile(direct[times], share)).toFixed(1);
  const requests = system.opening.length + system.following.length;
  return [
    ...[system.name, "", ...[0.5, 0.99].map((share) => percentile(system.following, share).toFixed(1))],
    ...(system === direct ? [] : [
      ...[added("following", 0.5), added("following", 0.99), added("opening", 0.5), added("opening", 0.99)],
      ...[system.cpuMs, system.written / 1024].map((all) => (all / requests).toFixed(1)),
      (system.memory / 2 ** 20).toFixed(0),
    ]),
  ];
});
const head = ["system", "", "p50 ms", "p99 ms", "added p50", "added p99", "opening: added p50", "p99"];
console.log("Time to the first byte of the reply, and what a request takes");
console.log(formatTable([[...head, "CPU ms/request", "KiB written", "MiB"], ...rows]));
