import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import type { Adapter, AdapterOptions } from "@tare/adapters/ai-sdk";
import { type Archive, memoryArchive, parsePlaceholder } from "@tare/prune";
import { scripted, type SimulatedModel, toolCall } from "@tare/simulator";
import { type Client, play } from "../../gateway/compare.ts";
import { ANSWER, CALLS, SCRIPT } from "../../gateway/long_session.ts";
import { costOf, startUpstream, type Upstream } from "../../gateway/upstream.ts";

/** How a framework plays the long session, with an adapter or alone. */
export interface Played {
  readonly answer: string;
  /** The history that the framework has kept, as JSON data. */
  readonly history: unknown;
}

/** Plays the long session with a framework. With options it uses the adapter, which it hands to `made`. */
export type Player = (
  client: Client,
  adapting?: { readonly options: AdapterOptions; readonly made: (adapter: Adapter) => void },
) => Promise<Played>;

/** What the adapter goes by, in front of a simulated provider. */
function optionsFor(upstream: Upstream, archive: Archive): AdapterOptions {
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
 * Plays the long session with a framework, once alone and once with the adapter. The history that the framework keeps
 * and the answer must be the same; what the provider charges must be less, and be what the ledger says.
 *
 * @returns The share of the cost that the adapter saves.
 */
export async function compareAdapted(player: Player): Promise<number> {
  await using direct = await startUpstream(scripted(SCRIPT));
  let alone: Played | undefined;
  const { calls } = await play(direct.baseURL, async (client) => (alone = await player(client)).answer);
  assertEquals([alone?.answer, calls], [ANSWER, CALLS]);

  await using upstream = await startUpstream(scripted(SCRIPT));
  let adapted: Played | undefined;
  let adapter: Adapter | undefined;
  const states: unknown[] = [];
  const store = (state: unknown) => void states.push(structuredClone(state));
  const options = { ...optionsFor(upstream, memoryArchive()), store };
  const made = (one: Adapter) => adapter = one;
  const guided = await play(
    upstream.baseURL,
    async (client) => (adapted = await player(client, { options, made })).answer,
  );
  assertEquals([guided.answer, guided.calls], [ANSWER, CALLS]);
  assertEquals(adapted, alone);

  assert(adapter);
  const { ledger, session } = adapter;
  assertEquals(
    ledger.map(({ usage }) => [usage.promptTokens, usage.cachedTokens]),
    upstream.requests.map(({ promptTokens, cachedTokens }) => [promptTokens, cachedTokens]),
  );
  assertEquals(states.at(-1), session.state);
  return 1 - costOf(upstream) / costOf(direct);
}

/** A model that recalls the first result that it sees elided, then goes on with the long session. */
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

/** Plays the long session with a model that recalls what has left, which must then stand in its prompt. */
export async function recallAdapted(player: Player): Promise<void> {
  const { model, recalled } = recallingModel();
  await using upstream = await startUpstream(model);
  const options = optionsFor(upstream, memoryArchive());
  const { answer, calls } = await play(
    upstream.baseURL,
    async (client) => (await player(client, { options, made: () => {} })).answer,
  );
  assertEquals([answer, calls], [ANSWER, CALLS]);
  assertEquals(recalled.length, 1);
  const [ref] = recalled;
  const shown = upstream.requests.flatMap(({ messages }) =>
    messages.flatMap((message) =>
      message.role === "tool" && message.tool_call_id === `recall_${ref}` ? contentText(message.content) : []
    )
  );
  assertStringIncludes(shown[0] ?? "", "1:  const ");
}

/**
 * Plays the long session until its middle, and goes on after a restart with a new adapter that has what was stored: the
 * requests must be those of a session that nobody interrupted.
 *
 * @param part Plays the steps from one to another, on the history of those before.
 */
export async function restartAdapted(
  part: (
    client: Client,
    settings: { readonly options: AdapterOptions; readonly history?: unknown; readonly steps: number },
  ) => Promise<unknown>,
): Promise<void> {
  const bodies = await Promise.all([[100], [14, 100]].map(async (parts) => {
    await using upstream = await startUpstream(scripted(SCRIPT));
    const archive = memoryArchive();
    let state: unknown;
    let history: unknown;
    const played = await play(upstream.baseURL, async (client) => {
      for (const steps of parts) {
        const stored = state === undefined ? {} : { state: JSON.parse(JSON.stringify(state)) };
        const store = (given: unknown) => void (state = given);
        const options = { ...optionsFor(upstream, archive), ...stored, store };
        history = await part(client, { options, steps, ...(history !== undefined && { history }) });
      }
      return "";
    });
    return played.bodies;
  }));
  assert(bodies[0]!.some((body) => body.includes("[elided")));
  assertEquals(bodies[1], bodies[0]);
}
