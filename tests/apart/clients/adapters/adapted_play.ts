import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import type { AdapterLedger, TareOptions } from "@tare/adapters/types";
import { type Archive, memoryArchive } from "@tare/prune";
import { parsePlaceholder } from "@tare/prune/internal";
import { scripted, type SimulatedModel, toolCall } from "@tare/simulator";
import { type Client, play } from "../../../gateway/compare.ts";
import { ANSWER, CALLS, QUESTION, SCRIPT } from "../../../gateway/long_session.ts";
import { costOf, startUpstream, type Upstream } from "../../../gateway/upstream.ts";

/** Result of the long session with a framework, with an adapter or as baseline. */
export interface Played {
  readonly answer: string;
  readonly history: unknown;
}

export type Options = Omit<TareOptions<never>, "conversation">;

export interface Player<Adapter extends AdapterLedger> {
  readonly adapt: (client: Client, options: Options) => Adapter;
  readonly play: (
    client: Client,
    settings: { readonly adapter?: Adapter; readonly question: string },
  ) => Promise<Played>;
}

function optionsFor(upstream: Upstream, archive: Archive): Options {
  return {
    profile: upstream.profile,
    archive,
    countTokens: upstream.tokenizer.count,
    windowTokens: 200_000,
    now: upstream.now,
    warn: (sentence) => {
      throw new Error(sentence);
    },
  };
}

/**
 * Plays the long session with and without the adapter: equal histories and answers, a lower bill, and the
 * same in the ledger.
 *
 * @returns The share of the cost that the adapter saves.
 */
export async function compareAdapted<Adapter extends AdapterLedger>(
  player: Player<Adapter>,
): Promise<number> {
  await using direct = await startUpstream(scripted(SCRIPT));
  let alone: Played | undefined;
  const { calls } = await play(direct.baseURL, async (client) => {
    alone = await player.play(client, { question: QUESTION });
    return alone.answer;
  });
  assertEquals([alone?.answer, calls], [ANSWER, CALLS]);

  await using upstream = await startUpstream(scripted(SCRIPT));
  let adapted: Played | undefined;
  let adapter: Adapter | undefined;
  const guided = await play(upstream.baseURL, async (client) => {
    adapter = player.adapt(client, optionsFor(upstream, memoryArchive()));
    adapted = await player.play(client, { adapter, question: QUESTION });
    return adapted.answer;
  });
  assertEquals([guided.answer, guided.calls], [ANSWER, CALLS]);
  assertEquals(adapted, alone);
  assertEquals(
    adapter?.ledger.map(({ usage, conversation }) => [conversation, usage.promptTokens, usage.cachedTokens]),
    upstream.requests.map(({ promptTokens, cachedTokens }) => [1, promptTokens, cachedTokens]),
  );
  return 1 - costOf(upstream) / costOf(direct);
}

/** Concurrent threads, and calls of each before its answer: as many threads as the provider remembers. */
const [THREADS, THREAD_CALLS] = [50, 9];

const threadModel: SimulatedModel = ({ messages }) => {
  const step = messages.filter(({ role }) => role === "assistant").length;
  return step < THREAD_CALLS ? SCRIPT[step]! : { content: ANSWER };
};

/**
 * Plays 50 concurrent threads: as baseline, with an adapter each, and with one for all. Both must cost the
 * same, as in the ledger.
 */
export async function threadsAdapted<Adapter extends AdapterLedger>(player: Player<Adapter>): Promise<void> {
  const run = async (adapterOf?: (client: Client, upstream: Upstream, thread: number) => Adapter) => {
    await using upstream = await startUpstream(threadModel, { timeOf: (request) => request * 200 });
    await play(upstream.baseURL, async (client) => {
      await Promise.all(Array.from({ length: THREADS }, async (_, thread) => {
        const adapter = adapterOf?.(client, upstream, thread);
        const { answer } = await player.play(client, {
          question: `${QUESTION} Look into part ${thread} of it.`,
          ...(adapter && { adapter }),
        });
        assertEquals(answer, ANSWER);
      }));
      return "";
    });
    return costOf(upstream);
  };
  const alone = await run();
  const adapt = (client: Client, upstream: Upstream) =>
    player.adapt(client, optionsFor(upstream, memoryArchive()));
  const each = await run(adapt);
  let shared: Adapter | undefined;
  const one = await run((client, upstream) => shared ??= adapt(client, upstream));
  const totals = shared?.total ?? { calls: 0, costUnits: 0, baselineCostUnits: 0 };
  assertEquals(totals.calls, THREADS * (THREAD_CALLS + 1));
  assert(each < 0.95 * alone);
  assertAlmostEquals(one / each, 1, 0.02);
  assertAlmostEquals(totals.costUnits / one, 1, 0.05);
  assertAlmostEquals(totals.baselineCostUnits / alone, 1, 0.05);
}

const JOBS = 12;
const JOB = [...SCRIPT.slice(0, 14), ...SCRIPT.slice(-1)];

/** Plays equal jobs through one adapter. None may cost more than the first, within a twentieth. */
export async function jobsAdapted<Adapter extends AdapterLedger>(player: Player<Adapter>): Promise<void> {
  await using upstream = await startUpstream(scripted(Array.from({ length: JOBS }, () => JOB).flat()));
  const costs: number[] = [];
  let adapter: Adapter | undefined;
  await play(upstream.baseURL, async (client) => {
    const adapted = adapter = player.adapt(client, optionsFor(upstream, memoryArchive()));
    for (let from = 0; costs.length < JOBS; from = upstream.requests.length) {
      const { answer } = await player.play(client, { adapter: adapted, question: QUESTION });
      assertEquals(answer, ANSWER);
      costs.push(costOf({ ...upstream, requests: upstream.requests.slice(from) }));
    }
    return "";
  });
  const text = costs.map(Math.round).join();
  for (const cost of costs) assert(cost <= 1.05 * costs[0]!, text);
  assertAlmostEquals((adapter?.total.costUnits ?? 0) / costs.reduce((sum, cost) => sum + cost), 1, 0.05);
  assertEquals(new Set(adapter?.ledger.map(({ conversation }) => conversation)).size, JOBS);
}

function recallingModel(): { readonly model: SimulatedModel; readonly recalled: string[] } {
  const script = scripted(SCRIPT);
  const recalled: string[] = [];
  return {
    recalled,
    async model(request) {
      if (recalled.length > 0) return await script(request);
      for (const message of request.messages) {
        if (message.role !== "tool") continue;
        const { ref } = parsePlaceholder(contentText(message.content).split("\n")[0] ?? "") ?? {};
        if (ref === undefined) continue;
        recalled.push(ref);
        return { content: null, tool_calls: [toolCall("recall", { ref }, { id: `recall_${ref}` })] };
      }
      return await script(request);
    },
  };
}

/** Plays the long session with a model whose recalled results must appear in its prompt. */
export async function recallAdapted<Adapter extends AdapterLedger>(player: Player<Adapter>): Promise<void> {
  const { model, recalled } = recallingModel();
  await using upstream = await startUpstream(model);
  const { answer, calls } = await play(upstream.baseURL, async (client) => {
    const adapter = player.adapt(client, optionsFor(upstream, memoryArchive()));
    return (await player.play(client, { adapter, question: QUESTION })).answer;
  });
  assertEquals([answer, calls], [ANSWER, CALLS]);
  assertEquals(recalled.length, 1);
  const [ref] = recalled;
  const visible = upstream.requests.flatMap(({ messages }) =>
    messages.flatMap((message) =>
      message.role === "tool" && message.tool_call_id === `recall_${ref}` ? contentText(message.content) : []
    )
  );
  assertStringIncludes(visible[0] ?? "", "1:  const ");
}

/**
 * Plays the long session with a restart in the middle: the requests must be those of an uninterrupted
 * session.
 *
 * @param part Plays the steps from one to another, on the history of those before.
 */
export async function restartAdapted(
  part: (
    client: Client,
    settings: { readonly options: Options; readonly history?: unknown; readonly steps: number },
  ) => Promise<unknown>,
): Promise<void> {
  const bodies = await Promise.all([[100], [14, 100]].map(async (parts) => {
    await using upstream = await startUpstream(scripted(SCRIPT));
    const archive = memoryArchive();
    const stored = new Map<string, string>();
    const store = {
      load: (key: string) => JSON.parse(stored.get(key) ?? "null"),
      save: (key: string, state: unknown) => void stored.set(key, JSON.stringify(state)),
    };
    let history: unknown;
    const played = await play(upstream.baseURL, async (client) => {
      for (const steps of parts) {
        const options = { ...optionsFor(upstream, archive), store };
        history = await part(client, { options, steps, ...(history !== undefined && { history }) });
      }
      return "";
    });
    assertEquals(stored.size, 1);
    return played.bodies;
  }));
  assert(bodies[0]!.some((body) => body.includes("[elided")));
  assertEquals(bodies[1], bodies[0]);
}
