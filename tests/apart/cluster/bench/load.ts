import { percentile } from "../../../../scripts/percentile.ts";
import { createSession, playTurn } from "./turn.ts";

/** Latency of a typical model: milliseconds before each answer, words, and words per second. */
export const MANNER = { thinkMs: 5_000, words: 40, perSecond: 80 };

const STEPS_PER_TURN = 4;

/** Concurrent sessions, each on one of the servers, with consecutive turns. */
export interface Load {
  readonly servers: readonly string[];
  readonly provider: string;
  readonly sessions: number;
  readonly measuredMs: number;
}

export interface LoadResult {
  readonly turnsPerSecond: number;
  /** Overhead of a step beyond the provider's part, in milliseconds. */
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
}

/**
 * Measures the overhead of a step outside the servers: from a reply's end to the next request, including
 * tools; and for a turn, from the client's request to the first model request plus from the last reply to
 * the turn's end. `around` starts and ends the measurement.
 */
export async function measureLoad<Gauged>(
  { servers, provider, sessions, measuredMs }: Load,
  around: () => Promise<(steps: number) => Promise<Gauged>>,
): Promise<LoadResult & Gauged> {
  const stepMs = MANNER.thinkMs + MANNER.words / MANNER.perSecond * 1000;
  const ids = [];
  for (let made = 0; made < sessions; made++) {
    const server = servers[made % servers.length]!;
    ids.push({ server, id: await createSession(server) });
  }
  const takeTimes = async (): Promise<Record<string, [number, number][]>> =>
    await (await fetch(new URL("/bench/times", provider), { method: "POST" })).json();
  const turns: { readonly text: string; readonly startMs: number; readonly endMs: number }[] = [];
  let isOver = false;
  const nowMs = () => performance.timeOrigin + performance.now();
  const play = async ({ server, id }: { server: string; id: string }, index: number) => {
    for (let turn = 0; !isOver; turn++) {
      const text = `${index}.${turn}`;
      const startMs = nowMs();
      await playTurn(server, id, `What does the file say? (${text})`);
      turns.push({ text, startMs, endMs: nowMs() });
    }
  };
  const playing = ids.map(async (session, index) => {
    await pause(stepMs * STEPS_PER_TURN * index / sessions);
    await play(session, index);
  });
  const failed = Promise.all(playing).then(() => {});
  // The load is steady once every session has begun.
  await Promise.race([failed, pause(stepMs * (STEPS_PER_TURN + 1))]);
  const fromMs = nowMs();
  const gauge = await around();
  await Promise.race([failed, pause(measuredMs)]);
  const untilMs = nowMs();
  // Requests that are still unanswered are ignored.
  const times = await takeTimes();
  const isIn = (ms: number) => ms >= fromMs && ms < untilMs;
  const steps = Object.values(times).flat().filter(([, sentMs]) => isIn(sentMs)).length;
  const gauged = await gauge(steps);
  isOver = true;
  await failed;
  Object.entries(await takeTimes()).forEach(([text, more]) => (times[text] ??= []).push(...more));
  const seconds = (untilMs - fromMs) / 1000;
  const between = Object.values(times).flatMap((calls) =>
    calls.slice(1).map(([arrivedMs], index) => ({ atMs: arrivedMs, addedMs: arrivedMs - calls[index]![1] }))
  );
  const ends = turns.map(({ text, startMs, endMs }) => {
    const calls = times[text] ?? [];
    if (calls.length !== STEPS_PER_TURN) {
      throw new Error(`Cannot measure: a turn made ${calls.length} requests.`);
    }
    return { atMs: endMs, addedMs: calls[0]![0] - startMs + endMs - calls.at(-1)![1] };
  });
  const added = [...between, ...ends].filter(({ atMs }) => isIn(atMs)).map(({ addedMs }) => addedMs);
  return {
    turnsPerSecond: steps / STEPS_PER_TURN / seconds,
    addedP50Ms: percentile(added, 0.5),
    addedP99Ms: percentile(added, 0.99),
    ...gauged,
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
