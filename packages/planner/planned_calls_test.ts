import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  type LedgerEntry,
  plannerSession,
  type PlanningSession,
  type Profile,
  profileNamed,
  type PromptCall,
  type PromptSessionOptions,
  type SessionView,
} from "@tare/planner";
import { PrefixCache } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";
import type { Edit } from "./edits/edit.ts";

const TOOL: ToolDefinition = {
  type: "function",
  function: { name: "read", description: "Reads. ".repeat(400), parameters: { type: "object" } },
};

function round(id: number, tokens: number): Message[] {
  const call = {
    id: `${id}`,
    type: "function" as const,
    function: { name: "read", arguments: `{"n":${id}}` },
  };
  return [
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: `${id}`, content: `result ${id} `.padEnd(4 * tokens, "x") },
  ];
}

const ask = (content: string): Message => ({ role: "user", content });
const answer = (content: string): Message => ({ role: "assistant", content });

interface State {
  readonly edits: readonly Edit[];
  readonly planner: { readonly resend: number; readonly stopped: boolean };
}

interface Made {
  readonly view: SessionView;
  readonly edits: readonly Edit[];
  readonly entry: LedgerEntry;
}

const OPTIONS = { countTokens: estimateTokens, mechanisms: { truncate: false } } as const;

function session(
  { profile = profileNamed("anthropic-5m"), ...options }: Partial<PromptSessionOptions> & {
    readonly profile?: Profile;
  } = {},
) {
  const session = plannerSession({ ...OPTIONS, profile, archive: memoryArchive(), ...options });
  const cache = new PrefixCache(profile);
  return {
    session,
    call(
      messages: readonly Message[],
      { usage, tools = [TOOL], nowMs = 0, ...rest }: Partial<PromptCall> & {
        readonly tools?: readonly ToolDefinition[];
        readonly usage?: Usage;
      } = {},
    ): Promise<Made> {
      return play(session, { messages, tools, nowMs, ...rest }, (view) => {
        const units = PrefixCache.unitsOf(view, estimateTokens);
        const cachedTokens = cache.lookup(units, nowMs);
        cache.store(units, nowMs);
        return usage ?? { promptTokens: view.promptTokens, cachedTokens, outputTokens: 7 };
      });
    },
  };
}

async function play(
  session: PlanningSession,
  { messages, tools, ...call }: PromptCall & {
    readonly messages: readonly Message[];
    readonly tools: readonly ToolDefinition[];
  },
  use: (view: SessionView) => Usage,
): Promise<Made> {
  const before = stateOf(session).edits;
  const view = await session.view({ messages, tools }, call);
  const edits = stateOf(session).edits.filter((edit) => !before.includes(edit));
  return { view, edits, entry: session.sent(use(view))! };
}

const stored = ({ state }: PlanningSession) => JSON.parse(JSON.stringify(state));
const stateOf = (session: PlanningSession) => session.state as State;

const causes = ({ uncached }: LedgerEntry) => uncached.map(({ cause }) => cause);

Deno.test("plannerSession() records each call's cost, content and causes of uncached tokens", async () => {
  const { call } = session({ advanced: { retention: { compactTools: false } } });
  const start = [{ role: "system", content: "Be brief." } as const, ask("Read."), ...round(1, 3_000)];
  const first = (await call(start)).entry;
  assertEquals(causes(first), ["first_call"]);
  assertEquals(first.shares, {
    tools: first.usage.promptTokens - 3_000 - first.shares.core - first.shares.activeTurn - 4,
    core: 7,
    oldTurns: 0,
    activeTurn: 6 + 4 + 1 + 2,
    results: 3_004,
    placeholders: 0,
  });
  assertEquals(first.costUnits, 1.25 * first.usage.promptTokens);
  assertEquals([first.baselineCostUnits, first.savedCostUnits], [first.costUnits, 0]);

  const next = (await call([...start, answer("Done."), ask("More.")], { nowMs: 1_000 })).entry;
  assertEquals([next.predictedCachedTokens, causes(next)], [first.usage.promptTokens, ["new"]]);
  assertEquals([next.shares.oldTurns, next.shares.activeTurn], [13 + 6, 6]);
});

Deno.test("plannerSession() distinguishes an expired prefix from a lost one, and a changed model from changed tools", async () => {
  const start = [ask("Read."), ...round(1, 3_000)];
  const second = [...start, ...round(2, 100)];
  const after = async (options: Parameters<ReturnType<typeof session>["call"]>[1]) => {
    const { call } = session({ advanced: { retention: { compactTools: false } } });
    await call(start);
    return causes((await call(second, options)).entry);
  };
  assertEquals(await after({ nowMs: 400_000 }), ["expired", "new"]);
  const lost = { promptTokens: 4_000, cachedTokens: 0, outputTokens: 1 };
  assertEquals(await after({ nowMs: 1_000, usage: lost }), ["provider_lost", "new"]);
  assertEquals(await after({ nowMs: 1_000, model: "other" }), ["model_changed"]);
  assertEquals((await after({ nowMs: 1_000, tools: [] }))[0], "tools_changed");
});

const HOUR = 3_600_000;

function commands(count: number, tokens: number): Message[] {
  return Array.from({ length: count }, (_, id) =>
    [
      {
        role: "assistant",
        tool_calls: [{ id: `${id}`, type: "function", function: { name: "run", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: `${id}`, content: "x ".repeat(2 * tokens) },
    ] as const).flat();
}

Deno.test("plannerSession() elides at once without a cache, and reports its own rewrite", async () => {
  const none = session({ profile: profileNamed("none") });
  const messages = [ask("Run."), ...commands(3, 3_000)];
  const { edits, entry } = await none.call(messages);
  assertEquals(edits.map((edit) => edit.type === "elide" && edit.index), [2, 4]);
  assertEquals(entry.decision?.cause, "price");
  assert(entry.savedCostUnits > 5_900);

  const warm = session();
  const rounds = [ask("Run. ".repeat(2_000)), ...round(1, 6_000), ...round(2, 6_000)];
  await warm.call(rounds.slice(0, 1));
  await warm.call(rounds.slice(0, 3), { nowMs: 1_000 });
  const waits = await warm.call(rounds, { nowMs: 2_000 });
  assertEquals([waits.edits, waits.entry.decision?.cause], [[], "wait"]);
  const run = [...rounds, ...commands(2, 1_000)];
  assertEquals((await warm.call(run, { nowMs: 3_000 })).edits, []);
  const later = [...run, answer("Done."), ask("More."), answer("Done."), ask("More.")];
  const resumed = await warm.call(later, { nowMs: 30 * 24 * HOUR });
  assertEquals(resumed.edits.map(({ type }) => type), ["compact", "drop", "elide", "elide"]);
  assertEquals(causes(resumed.entry), ["expired"]);
});

Deno.test("plannerSession() evicts the steps of old turns, and keeps their texts", async () => {
  const archive = memoryArchive();
  const { call } = session({ profile: profileNamed("none"), archive });
  const old = [ask("Run."), ...commands(2, 9_000), answer("It ran."), ask("Thanks."), answer("Welcome.")];
  const { view, edits: [edit] } = await call([...old, ask("Again."), ...commands(1, 9_000)], {
    recall: true,
  });
  assert(edit?.type === "drop");
  assertEquals([edit.from, edit.to], [1, 5]);
  assertEquals(edit.text, `[elided: 4 messages; recall with ref ${edit.ref}]`);
  assertEquals(
    await archive.get(edit.ref),
    old.slice(1, 5).map((message) => JSON.stringify(message)).join("\n"),
  );
  assertEquals(view.places, [0, -1, 5, 6, 7, 8, 9, 10]);
});

Deno.test("plannerSession() compacts a tool's schema only after its first call", async () => {
  const { call } = session({ profile: profileNamed("none") });
  assertEquals((await call([ask("Read."), answer("What?"), ask("All.")])).edits, []);
  const { edits } = await call([ask("Read."), answer("What?"), ask("All."), ...round(1, 100)]);
  assertEquals(edits.map(({ type }) => type), ["compact"]);
});

Deno.test("plannerSession() counts like the provider, including an unseen prefix", async () => {
  const { session: one, call } = session({ profile: profileNamed("openai"), windowTokens: 70_000 });
  const messages = [ask("Read."), ...[1, 2, 3, 4, 5, 6, 7].flatMap((id) => round(id, 2_000))];
  let last: Made | undefined;
  for (const [at, length] of [3, 5, 7, 9, 11].entries()) {
    const request = { messages: messages.slice(0, length), tools: [], nowMs: 1_000 * at };
    last = await play(one, request, ({ promptTokens }) => ({
      promptTokens: 40_000 + 2 * promptTokens,
      cachedTokens: 40_064,
      outputTokens: 1,
    }));
    assertEquals(last.edits, []);
  }
  const next = await call(messages, { tools: [], nowMs: 5_000 });
  assertEquals([last?.entry.decision?.cause, next.entry.decision?.cause], [undefined, "window"]);
});

Deno.test("plannerSession() changes nothing and warns if evicted content can't be archived", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { call } = session({ profile: profileNamed("none"), archive });
  const { edits, view } = await call([ask("Run."), ...commands(3, 3_000)]);
  assertEquals(edits, []);
  assertEquals(view.warnings.length, 1);
  assertStringIncludes(view.warnings[0] ?? "", "the disk is full. Nothing was evicted.");
});

Deno.test("plannerSession() summarizes old turns if evictions can't make room, and records the cost", async () => {
  const usage = { promptTokens: 9_000, cachedTokens: 0, outputTokens: 20 };
  const { call } = session({
    profile: profileNamed("none"),
    windowTokens: 10_000,
    summarize: () => Promise.resolve({ text: "I told a story.", usage }),
  });
  const messages = [
    ask("Tell."),
    answer("y".repeat(4 * 2_400)),
    ask("Again."),
    answer("w".repeat(4 * 7_000)),
    ask("On."),
  ];
  const first = await call(messages.slice(0, 3), { tools: [] });
  assertEquals(first.edits, []);
  const { view, edits, entry } = await call([...messages.slice(0, 3), ...round(1, 7_000)], { tools: [] });
  // One prompt was reported: the new result may be longer than it seems.
  assertEquals(edits.map(({ type }) => type), ["summarize", "elide"]);
  assertEquals(view.messages.slice(0, 3).map(({ role }) => role), ["user", "assistant", "user"]);
  assertStringIncludes(String(view.messages[1]?.content), "I told a story.");
  assertEquals(entry.costUnits, view.promptTokens + usage.promptTokens);
});

Deno.test("plannerSession() stops rewriting a session that lost by it, and warns", async () => {
  const { session: one, call } = session();
  const messages = [ask("Read."), ...round(1, 3_000), ...round(2, 17_000)];
  await call(messages.slice(0, 3));
  const { planner, ...rest } = stateOf(one);
  const { session: stopped, call: callStopped } = session({
    state: { ...rest, planner: { ...planner, paid: 2 * planner.resend } },
  });
  // The provider bills far more than expected of a rewritten prompt.
  const usage = { promptTokens: 20_000, cachedTokens: 0, outputTokens: 1 };
  await callStopped(messages, { nowMs: 1_000, usage });
  assertEquals(stateOf(stopped).planner.stopped, true);
  const all = [...messages, ...round(3, 100)];
  const { edits, entry, view } = await callStopped(all, { nowMs: 30 * 24 * HOUR });
  assertEquals([edits, entry.decision?.cause], [[], "stopped"]);
  assertStringIncludes(view.warnings[0] ?? "", "Rewriting has cost this session more than it saved");
});

Deno.test("plannerSession() recognizes an unknown cache by its usage", async () => {
  const { session: one, call } = session({ profile: profileNamed("none") });
  await call([ask("Hi.")]);
  assertEquals(one.profile.name, "none");
  await call([ask("Hi."), answer("Hello."), ask("Go on.")], {
    usage: { promptTokens: 3_000, cachedTokens: 1_280, outputTokens: 1 },
  });
  assertEquals(one.profile.name, "openai");
});

Deno.test("plannerSession() continues from a stored state without a difference", async () => {
  const archive = memoryArchive();
  const { session: one, call } = session({ archive });
  const messages = [ask("Read."), ...round(1, 3_000), ...round(2, 17_000), ...round(3, 100)];
  for (const length of [1, 3, 5]) await call(messages.slice(0, length), { nowMs: length * 1_000 });
  const { profile } = one;
  const restored = plannerSession({
    ...OPTIONS,
    profile,
    archive,
    state: stored(one),
  });
  const sight = { messages, tools: [TOOL] };
  const call9 = { nowMs: 9_000 };
  assertEquals(await restored.view(sight, call9), await one.view(sight, call9));
  assertEquals(stored(restored), stored(one));
});
