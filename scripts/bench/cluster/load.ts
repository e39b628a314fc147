import { percentile } from "../percentile.ts";
import { STEPS_PER_TURN } from "../server/load.ts";
import { createSession, playTurn, post } from "../server/turn.ts";

/** Sessions at work, each on one of the servers, each in one turn after the other. */
export interface ClusterLoad {
  /** Addresses of the servers. */
  readonly servers: readonly string[];
  /** Address of the provider. */
  readonly provider: string;
  readonly sessions: number;
  /** How long the provider thinks before each answer, in milliseconds. */
  readonly thinkMs: number;
  /** Words that it says in each step. */
  readonly words: number;
  /** Words a second. */
  readonly perSecond: number;
  /** How long is measured, in milliseconds. */
  readonly measuredMs: number;
  /** Follows a session until that says true. Default: nobody does but who starts its turns. */
  readonly follow?: (id: string, isOver: () => boolean) => Promise<unknown>;
}

/** What a load showed. */
export interface ClusterLoadResult {
  readonly turnsPerSecond: number;
  readonly stepsPerSecond: number;
  /** What a step took beyond the provider's part, in milliseconds. */
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
}

/**
 * Measures what a step takes beyond the provider's part, as seen from outside the servers: from the end of one reply
 * until the next request comes, the tool's run and all ways included; and for a turn's first and last request together,
 * from the client's request until the first one comes, and from the end of the last reply until the client has the turn's
 * end. `around` is called when measuring begins, and what it gives when it ends, with the steps taken.
 */
export async function measureClusterLoad<Gauged>(
  { servers, provider, sessions, thinkMs, words, perSecond, measuredMs, follow }: ClusterLoad,
  around: () => Promise<(steps: number) => Promise<Gauged>>,
): Promise<ClusterLoadResult & Gauged> {
  const model = `after-${thinkMs}-say-${words}-at-${perSecond}`;
  const stepMs = thinkMs + words / perSecond * 1000;
  const ids = [];
  for (let made = 0; made < sessions; made++) {
    const server = servers[made % servers.length]!;
    ids.push({ server, id: await createSession(server, model) });
  }
  const takeTimes = async (): Promise<Record<string, [number, number][]>> =>
    await (await fetch(new URL("/bench/times", provider), { method: "POST" })).json();
  const turns: { readonly said: string; readonly startMs: number; readonly endMs: number }[] = [];
  let isOver = false;
  const nowMs = () => performance.timeOrigin + performance.now();
  const play = async ({ server, id }: { server: string; id: string }, index: number) => {
    for (let turn = 0; !isOver; turn++) {
      const said = `${index}.${turn}`;
      const startMs = nowMs();
      await playTurn(server, id, `What does the file say? (${said})`);
      turns.push({ said, startMs, endMs: nowMs() });
    }
  };
  const playing = ids.map(async (session, index) => {
    await pause(stepMs * STEPS_PER_TURN * index / sessions);
    await Promise.all([play(session, index), follow?.(session.id, () => isOver)]);
  });
  const failed = Promise.all(playing).then(() => {});
  // Once every session has begun, all is as it goes on.
  await Promise.race([failed, pause(stepMs * (STEPS_PER_TURN + 1))]);
  const fromMs = nowMs();
  const gauge = await around();
  await Promise.race([failed, pause(measuredMs)]);
  const untilMs = nowMs();
  // What of the newest requests has been answered is enough.
  const times = await takeTimes();
  const isIn = (ms: number) => ms >= fromMs && ms < untilMs;
  const steps = Object.values(times).flat().filter(([, sentMs]) => isIn(sentMs)).length;
  const gauged = await gauge(steps);
  isOver = true;
  await failed;
  Object.entries(await takeTimes()).forEach(([said, more]) => (times[said] ??= []).push(...more));
  const seconds = (untilMs - fromMs) / 1000;
  const between = Object.values(times).flatMap((calls) =>
    calls.slice(1).map(([cameMs], index) => ({ atMs: cameMs, addedMs: cameMs - calls[index]![1] }))
  );
  const ends = turns.map(({ said, startMs, endMs }) => {
    const calls = times[said] ?? [];
    if (calls.length !== STEPS_PER_TURN) {
      throw new Error(`Cannot measure: a turn made ${calls.length} requests.`);
    }
    return { atMs: endMs, addedMs: calls[0]![0] - startMs + endMs - calls.at(-1)![1] };
  });
  const added = [...between, ...ends].filter(({ atMs }) => isIn(atMs)).map(({ addedMs }) => addedMs);
  return {
    turnsPerSecond: steps / STEPS_PER_TURN / seconds,
    stepsPerSecond: steps / seconds,
    addedP50Ms: percentile(added, 0.5),
    addedP99Ms: percentile(added, 0.99),
    ...gauged,
  };
}

/**
 * Measures what a proxy adds to a model call that knows nothing of it: from its client's request until the provider has
 * it, and from the end of the reply there until the client has that. The same sessions ask at the same pace.
 */
export async function measureProxy(
  { proxy, provider, sessions, thinkMs, words, perSecond, measuredMs }:
    & Omit<ClusterLoad, "servers" | "follow">
    & { readonly proxy: string },
): Promise<Pick<ClusterLoadResult, "addedP50Ms" | "addedP99Ms">> {
  const model = `after-${thinkMs}-say-${words}-at-${perSecond}`;
  const stepMs = thinkMs + words / perSecond * 1000;
  const nowMs = () => performance.timeOrigin + performance.now();
  const asked: { readonly said: string; readonly startMs: number; readonly endMs: number }[] = [];
  const untilMs = nowMs() + stepMs + measuredMs;
  await Promise.all(Array.from({ length: sessions }, async (_, index) => {
    await pause(stepMs * index / sessions);
    for (let call = 0; nowMs() < untilMs; call++) {
      const said = `${index}.${call}`;
      const content = `What does the file say? (${said})`;
      const startMs = nowMs();
      const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content }] });
      await (await post(`${proxy}/chat/completions`, body)).arrayBuffer();
      asked.push({ said, startMs, endMs: nowMs() });
    }
  }));
  const response = await fetch(new URL("/bench/times", provider), { method: "POST" });
  const times: Record<string, [number, number][]> = await response.json();
  const added = asked.flatMap(({ said, startMs, endMs }) =>
    (times[said] ?? []).map(([cameMs, sentMs]) => cameMs - startMs + endMs - sentMs)
  );
  return { addedP50Ms: percentile(added, 0.5), addedP99Ms: percentile(added, 0.99) };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
