import { currentProfile } from "../providers.ts";
import type { Plan, PlannerOptions, PlanRequest } from "./plan.ts";
import { Planner } from "./planner.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import {
  type Edit,
  KEEP_WANTED,
  type LedgerEntry,
  PrefixCache,
  profileNamed,
  promptUnits,
} from "@tare/planner";
import { memoryArchive } from "@tare/prune";

const TOOL: ToolDefinition = {
  type: "function",
  function: { name: "read", description: "Reads. ".repeat(400), parameters: { type: "object" } },
};

/** A tool round whose result has so many tokens. */
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

/** A planner and its provider. */
function session(options: Partial<PlannerOptions> = {}) {
  const profile = currentProfile(options.profile ?? profileNamed("anthropic-5m"));
  const planner = new Planner({ profile, countTokens: estimateTokens, archive: memoryArchive(), ...options });
  const cache = new PrefixCache(profile);
  let edits: readonly Edit[] = [];
  return {
    planner,
    async call(
      messages: readonly Message[],
      { nowMs = 0, tools = [TOOL], usage, ...rest }: Partial<Omit<PlanRequest, "edits">> & { usage?: Usage } =
        {},
    ): Promise<{ plan: Plan; entry: LedgerEntry; usage: Usage }> {
      const plan = await planner.plan({ messages, tools, edits, nowMs, ...rest });
      edits = [...edits, ...plan.edits];
      const units = promptUnits(plan.view, estimateTokens);
      usage ??= {
        promptTokens: plan.promptTokens,
        cachedTokens: cache.lookup(units, nowMs),
        outputTokens: 7,
      };
      cache.store(units, nowMs);
      return { plan, entry: planner.sent(plan, usage), usage };
    },
  };
}

const causes = ({ uncached }: LedgerEntry) => uncached.map(({ cause }) => cause);

Deno.test("Planner books what each call cost, what it consists of and why it was not cached", async () => {
  const { call } = session({ retention: { ...KEEP_WANTED, compactTools: false } });
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
  assertEquals(first.tokenUnits, 1.25 * first.usage.promptTokens);
  assertEquals([first.resendTokenUnits, first.savedTokenUnits], [first.tokenUnits, 0]);

  const next = (await call([...start, answer("Done."), ask("More.")], { nowMs: 1_000 })).entry;
  assertEquals([next.predictedCachedTokens, causes(next)], [first.usage.promptTokens, ["new"]]);
  assertEquals([next.shares.oldTurns, next.shares.activeTurn], [13 + 6, 6]);
});

Deno.test("Planner tells an expired prefix from a lost one, and a changed model from changed tools", async () => {
  const start = [ask("Read."), ...round(1, 3_000)];
  const second = [...start, ...round(2, 100)];
  const after = async (options: Parameters<ReturnType<typeof session>["call"]>[1]) => {
    const { call } = session({ retention: { ...KEEP_WANTED, compactTools: false } });
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

/** Rounds of a tool whose results nothing refers to. */
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

Deno.test("Planner elides at once without a cache, and names its own rewrite", async () => {
  const none = session({ profile: profileNamed("none") });
  const messages = [ask("Run."), ...commands(3, 3_000)];
  const { plan, entry } = await none.call(messages);
  assertEquals(plan.edits.map((edit) => edit.type === "elide" && edit.index), [2, 4]);
  assertEquals(entry.decision?.cause, "price");
  assert(entry.savedTokenUnits > 5_900);

  const warm = session();
  const rounds = [ask("Run. ".repeat(2_000)), ...round(1, 6_000), ...round(2, 6_000)];
  await warm.call(rounds.slice(0, 1));
  await warm.call(rounds.slice(0, 3), { nowMs: 1_000 });
  const waits = await warm.call(rounds, { nowMs: 2_000 });
  assertEquals([waits.plan.edits, waits.plan.decision?.cause], [[], "wait"]);
  const run = [...rounds, ...commands(2, 1_000)];
  assertEquals((await warm.call(run, { nowMs: 3_000 })).plan.edits, []);
  const later = [...run, answer("Done."), ask("More.")];
  const resumed = await warm.call(later, { nowMs: 30 * 24 * HOUR });
  assertEquals(resumed.plan.edits.map(({ type }) => type), [
    "compact",
    "elide",
    "elide",
    "elide",
    "elide",
  ]);
  assertEquals(causes(resumed.entry), ["expired"]);
});

Deno.test("Planner lets the steps of old turns leave, and keeps what was said", async () => {
  const archive = memoryArchive();
  const { call } = session({ profile: profileNamed("none"), archive });
  const old = [ask("Run."), ...commands(2, 9_000), answer("It ran."), ask("Thanks."), answer("Welcome.")];
  const { plan } = await call([...old, ask("Again."), ...commands(1, 9_000)], { recall: true });
  const [edit] = plan.edits;
  assert(edit?.type === "drop");
  assertEquals([edit.from, edit.to], [1, 5]);
  assertEquals(edit.text, `[elided: 4 messages; recall with ref ${edit.ref}]`);
  assertEquals(
    await archive.get(edit.ref),
    old.slice(1, 5).map((message) => JSON.stringify(message)).join("\n"),
  );
  assertEquals(plan.view.places, [0, -1, 5, 6, 7, 8, 9, 10]);
});

Deno.test("Planner shows a tool in short only once it has been called", async () => {
  const { call } = session({ profile: profileNamed("none") });
  assertEquals((await call([ask("Read."), answer("What?"), ask("All.")])).plan.edits, []);
  const { plan } = await call([ask("Read."), answer("What?"), ask("All."), ...round(1, 100)]);
  assertEquals(plan.edits.map(({ type }) => type), ["compact"]);
});

Deno.test("Planner counts what the provider counts, a prefix that isn't to be seen here included", async () => {
  const planner = new Planner({
    profile: profileNamed("openai"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
    windowTokens: 70_000,
  });
  const messages = [ask("Read."), ...[1, 2, 3, 4, 5, 6, 7].flatMap((id) => round(id, 2_000))];
  let plan: Plan | undefined;
  for (const [call, length] of [3, 5, 7, 9, 11].entries()) {
    const request = { messages: messages.slice(0, length), tools: [], edits: [], nowMs: 1_000 * call };
    plan = await planner.plan(request);
    assertEquals(plan.edits, []);
    const promptTokens = 40_000 + 2 * plan.promptTokens;
    planner.sent(plan, { promptTokens, cachedTokens: 40_064, outputTokens: 1 });
  }
  const next = await planner.plan({ messages, tools: [], edits: [], nowMs: 5_000 });
  assertEquals([plan?.decision?.cause, next.decision?.cause], [undefined, "window"]);
});

Deno.test("Planner changes nothing and says so if what would leave can't be archived", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { call } = session({ profile: profileNamed("none"), archive });
  const { plan } = await call([ask("Run."), ...commands(3, 3_000)]);
  assertEquals(plan.edits, []);
  assertEquals(plan.warnings.length, 1);
  assertStringIncludes(plan.warnings[0] ?? "", "the disk is full. Nothing left the prompt.");
});

Deno.test("Planner summarises old turns when dropping can't make room, and books its price", async () => {
  const usage = { promptTokens: 9_000, cachedTokens: 0, outputTokens: 20 };
  const { call } = session({
    profile: profileNamed("none"),
    windowTokens: 10_000,
    summarise: () => Promise.resolve({ text: "I told a story.", usage }),
  });
  const messages = [
    ask("Tell."),
    answer("y".repeat(4 * 2_400)),
    ask("Again."),
    answer("w".repeat(4 * 7_000)),
    ask("On."),
  ];
  const first = await call(messages.slice(0, 3), { tools: [] });
  assertEquals(first.plan.edits, []);
  const { plan, entry } = await call([...messages.slice(0, 3), ...round(1, 7_000)], { tools: [] });
  assertEquals(plan.edits.map(({ type }) => type), ["summarise"]);
  assertEquals(plan.view.messages.slice(0, 3).map(({ role }) => role), ["user", "assistant", "user"]);
  assertStringIncludes(String(plan.view.messages[1]?.content), "I told a story.");
  assertEquals(entry.tokenUnits, plan.promptTokens + usage.promptTokens);
});

Deno.test("Planner stops rewriting a session that lost by it, and says so", async () => {
  const { planner, call } = session({ lossLimit: 0.05 });
  const messages = [ask("Read."), ...round(1, 3_000), ...round(2, 17_000)];
  await call(messages.slice(0, 3));
  // The provider bills far more than was expected of a rewritten prompt.
  const cold = { promptTokens: 20_000, cachedTokens: 0, outputTokens: 1 };
  const state = { ...planner.state, paid: 2 * planner.state.resend };
  const stopped = new Planner({
    profile: planner.profile,
    countTokens: estimateTokens,
    archive: memoryArchive(),
  }, state);
  const plan = await stopped.plan({ messages, tools: [TOOL], edits: [], nowMs: 1_000 });
  stopped.sent(plan, cold);
  assertEquals(stopped.state.stopped, true);
  const all = [...messages, ...round(3, 100)];
  const next = await stopped.plan({ messages: all, tools: [TOOL], edits: [], nowMs: 30 * 24 * 3_600_000 });
  assertEquals([next.edits, next.decision?.cause], [[], "stopped"]);
});

Deno.test("Planner recognises a cache that nothing was known of by the usage that shows it", async () => {
  const { planner, call } = session({ profile: profileNamed("none") });
  await call([ask("Hi.")]);
  assertEquals(planner.profile.name, "none");
  await call([ask("Hi."), answer("Hello."), ask("Go on.")], {
    usage: { promptTokens: 3_000, cachedTokens: 1_280, outputTokens: 1 },
  });
  assertEquals(planner.profile.name, "openai");
});

Deno.test("Planner goes on from a stored state as if it had never stopped", async () => {
  const { planner, call } = session();
  const messages = [ask("Read."), ...round(1, 3_000), ...round(2, 17_000), ...round(3, 100)];
  for (const length of [1, 3, 5]) await call(messages.slice(0, length), { nowMs: length * 1_000 });
  const options = { profile: planner.profile, countTokens: estimateTokens, archive: memoryArchive() };
  const restored = new Planner(options, JSON.parse(JSON.stringify(planner.state)));
  const request = { messages, tools: [TOOL], edits: [], nowMs: 9_000 };
  assertEquals(await restored.plan(request), await planner.plan(request));
});
