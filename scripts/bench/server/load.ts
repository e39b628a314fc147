import { percentile } from "../percentile.ts";
import { createSession, playTurn, type SeenTurn } from "./turn.ts";

/** Where the load goes. */
export interface LoadTarget {
  /** The server with the stopwatch. */
  readonly server: string;
  /** How many sessions run turns at the same time. */
  readonly sessions: number;
  /** Turns of each session, one after the other. */
  readonly turns: number;
  /** How long the provider thinks before each answer, in milliseconds. */
  readonly thinkMs: number;
}

/** What a load showed. Times are in milliseconds. */
export interface Load {
  readonly sessions: number;
  readonly thinkMs: number;
  readonly turnsPerSecond: number;
  readonly steps: number;
  /**
   * What the server added to a step, by its own stopwatch. While the server is busy without a pause, part of a step's
   * time is a reply that waits in its socket to be read, which only the client sees.
   */
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  /** What a client saw of a step beyond the provider's thinking, as the mean of each turn: an upper limit. */
  readonly seenP50Ms: number;
  readonly seenP99Ms: number;
  readonly firstEventP50Ms: number;
  readonly firstEventP99Ms: number;
}

/** Model calls of a turn. */
export const STEPS_PER_TURN = 4;

/** Runs turns in many sessions at the same time. Each begins at another moment of the provider's first thinking. */
export async function measureLoad({ server, sessions, turns, thinkMs }: LoadTarget): Promise<Load> {
  const ids: string[] = [];
  for (let made = 0; made < sessions; made++) ids.push(await createSession(server, `after-${thinkMs}`));
  await takeSteps(server);
  const startedAt = performance.now();
  const seen = await Promise.all(ids.map(async (id, index) => {
    await new Promise((resolve) => setTimeout(resolve, thinkMs * index / sessions));
    const played: SeenTurn[] = [];
    for (let turn = 0; turn < turns; turn++) played.push(await playTurn(server, id));
    return played;
  }));
  const seconds = (performance.now() - startedAt) / 1000;
  const added = await takeSteps(server);
  if (added.length !== sessions * turns * STEPS_PER_TURN) {
    throw new Error(`Cannot measure: ${added.length} steps were timed of ${sessions * turns} turns.`);
  }
  const beyond = seen.flat().map(({ wholeMs }) => wholeMs / STEPS_PER_TURN - thinkMs);
  const first = seen.flat().map(({ firstEventMs }) => firstEventMs);
  return {
    sessions,
    thinkMs,
    turnsPerSecond: sessions * turns / seconds,
    steps: added.length,
    addedP50Ms: percentile(added, 0.5),
    addedP99Ms: percentile(added, 0.99),
    seenP50Ms: percentile(beyond, 0.5),
    seenP99Ms: percentile(beyond, 0.99),
    firstEventP50Ms: percentile(first, 0.5),
    firstEventP99Ms: percentile(first, 0.99),
  };
}

async function takeSteps(server: string): Promise<number[]> {
  return await (await fetch(`${server}/bench/steps`)).json();
}
