import { percentile } from "../percentile.ts";
import type { Listening } from "./listening.ts";
import { STEPS_PER_TURN } from "./load.ts";
import { createSession, playTurn } from "./turn.ts";

/** How the model of a measurement writes. */
export interface Manner {
  readonly sessions: number;
  /** Words that it says in each step. */
  readonly words: number;
  /** Words a second; infinite: all at once. */
  readonly perSecond: number;
}

/** What one step writes. */
export interface Writes extends Manner {
  readonly commits: number;
  /** Of the records, as JSON. */
  readonly bytes: number;
  /** What the process made the system write, as `/proc` says. */
  readonly diskBytes: number;
  /** From the turn's request until a client sees the first word, beyond the model's thinking, in milliseconds. */
  readonly firstDeltaP50Ms: number;
  readonly firstDeltaP99Ms: number;
}

/** Turns of each session. */
const TURNS = 3;

/** The model thinks first, as models do: what the turn's start takes is over then. */
const THINK_MS = 200;

/** Measures what a step writes. */
export async function measureWrites({ url, pid }: Listening, manner: Manner): Promise<Writes> {
  const { sessions, words, perSecond } = manner;
  const model = `after-${THINK_MS}-say-${words}` + (perSecond < Infinity ? `-at-${perSecond}` : "");
  const ids: string[] = [];
  for (let made = 0; made < sessions; made++) ids.push(await createSession(url, model));
  await takeWrites(url);
  const diskBefore = await writtenBytes(pid);
  const seen = await Promise.all(ids.map(async (id) => {
    const played = [];
    for (let turn = 0; turn < TURNS; turn++) played.push(await playTurn(url, id));
    return played;
  }));
  const { commits, bytes } = await takeWrites(url);
  const steps = sessions * TURNS * STEPS_PER_TURN;
  const first = seen.flat().map(({ firstDeltaMs }) => firstDeltaMs - THINK_MS);
  return {
    ...manner,
    commits: commits / steps,
    bytes: bytes / steps,
    diskBytes: (await writtenBytes(pid) - diskBefore) / steps,
    firstDeltaP50Ms: percentile(first, 0.5),
    firstDeltaP99Ms: percentile(first, 0.99),
  };
}

async function takeWrites(server: string): Promise<{ commits: number; bytes: number }> {
  return await (await fetch(`${server}/bench/writes`)).json();
}

async function writtenBytes(pid: number): Promise<number> {
  // Deno itself reads nothing in /proc unless everything is allowed.
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/io`] }).output();
  return Number(/^write_bytes: (\d+)$/m.exec(new TextDecoder().decode(stdout))?.[1]);
}
