import { assertAlmostEquals, assertEquals, assertLess } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import { plannerSession, profileNamed, type PromptSessionOptions } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";

const TOOLS: ToolDefinition[] = [{ type: "function", function: { name: "read" } }];

function step(id: string, lines = 150): Message[] {
  const call = { name: "read", arguments: JSON.stringify({ path: id }) };
  const content = Array.from({ length: lines }, (_, at) => `${id} has ${at * 7_919 % 10_007} at ${at}`);
  return [
    { role: "assistant", tool_calls: [{ id, type: "function", function: call }] },
    { role: "tool", tool_call_id: id, content: content.join("\n") },
  ];
}

function talk(
  reported: (served: number, call: number) => Partial<Usage>,
  options: Partial<PromptSessionOptions> = {},
) {
  const profile = (options.profile ?? profileNamed("openai")) as ReturnType<typeof profileNamed>;
  const session = plannerSession({
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: 1_000_000,
    ...options,
    profile,
  });
  const cache = new PrefixCache(profile);
  let [nowMs, calls] = [0, 0];
  return {
    session,
    async call(messages: readonly Message[], { idleMs = 1_000, model = "m" } = {}) {
      const view = await session.view({ messages: [...messages], tools: TOOLS }, {
        nowMs: nowMs += idleMs,
        model,
      });
      const units = PrefixCache.unitsOf(view, estimateTokens);
      const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
      const usage = { promptTokens, cachedTokens: 0, outputTokens: 10 };
      const entry = session.sent({ ...usage, ...reported(cache.lookup(units, nowMs), calls++) }, view)!;
      cache.store(units, nowMs);
      const warnings = view.warnings.filter((one) => one.startsWith("The provider reports no cache reads"));
      return { view, entry, warnings, rewrites: view.rewrites.length };
    },
  };
}

const TASK: Message = { role: "user", content: `Find the fault. ${"Look twice. ".repeat(1_000)}` };

Deno.test("plannerSession() assumes no cache after two calls without reads, until it reports one", async () => {
  for (const profile of Object.values(PROFILES)) {
    // `none` caches nothing, and local servers rarely report free reads.
    if (profile.name === "none" || profile.name === "local") continue;
    let isRead = false;
    const { session, call } = talk((served) => isRead ? { cachedTokens: served } : {}, { profile });
    const history: Message[] = [TASK];
    const warned: number[] = [];
    for (let at = 0; at < 6; at++) {
      const { entry, warnings } = await call(history);
      if (warnings.length > 0) warned.push(at);
      const isBelieved = at >= 3;
      // After two successive calls that should have read.
      assertEquals(
        [session.profile.read, session.profile.write],
        at >= 2 ? [1, 1] : [profile.read, profile.write],
      );
      const { promptTokens } = entry.usage;
      assertAlmostEquals(entry.costUnits, promptTokens * (isBelieved ? 1 : profile.write), 1e-6);
      // The baseline isn't cheaper.
      assertEquals(entry.baselineCostUnits >= entry.costUnits - 1e-6, true);
      if (isBelieved) assertEquals(entry.predictedCachedTokens, 0);
      history.push(...step(`${profile.name} ${at}`, 3));
    }
    assertEquals([profile.name, warned], [profile.name, [3]]);
    isRead = true;
    const { entry } = await call(history);
    assertEquals([profile.name, session.profile.name, session.profile.read], [
      profile.name,
      profile.name,
      profile.read,
    ]);
    assertAlmostEquals(entry.costUnits, promptCost(profile, entry.usage), 1e-6);
    assertEquals((await call(history)).warnings, []);
  }
});

Deno.test("plannerSession() plans as without a cache if the provider reports no reads, after a restart too", async () => {
  const play = async (profile: string, isRestarted = false) => {
    let { session, call } = talk(() => ({}), { profile: profileNamed(profile) });
    const history: Message[] = [TASK];
    let cost = 0;
    for (let at = 0; at < 40; at++) {
      cost += (await call(history)).entry.usage.promptTokens;
      history.push(...step(`${at}`));
      if (isRestarted && at === 10) {
        const state = JSON.parse(JSON.stringify(session.state));
        ({ session, call } = talk(() => ({}), { profile: profileNamed(profile), state }));
        assertEquals((await call(history)).warnings, []);
        assertEquals(session.profile.read, 1);
      }
    }
    return cost;
  };
  const [none, deepseek, restarted] = [
    await play("none"),
    await play("deepseek"),
    await play("deepseek", true),
  ];
  assertLess(deepseek, 1.05 * none);
  assertLess(restarted, 1.1 * none);
});

Deno.test("plannerSession() ignores missing reads with another reason", async () => {
  const grow = (at: number) => [TASK, ...Array.from({ length: at }, (_, one) => step(`${one}`, 3)).flat()];
  const isBelieved = async (
    messages: (at: number) => readonly Message[],
    {
      call: how = () => ({}),
      reported = () => ({}),
      options = {},
    }: {
      readonly call?: (at: number) => { readonly idleMs?: number; readonly model?: string };
      readonly reported?: (served: number, call: number) => Partial<Usage>;
      readonly options?: Partial<PromptSessionOptions>;
    } = {},
  ) => {
    const { session, call } = talk(reported, options);
    for (let at = 0; at < 6; at++) await call(messages(at), how(at));
    return session.profile.minTokens === Infinity;
  };
  assertEquals(await isBelieved(grow), true);
  // Its prefix changes with each call.
  assertEquals(await isBelieved((at) => [{ ...TASK, content: `${at} ${TASK.content}` }]), false);
  // It is shorter than the smallest cached prefix.
  assertEquals(await isBelieved((at) => Array(at + 1).fill({ role: "user", content: "Short." })), false);
  // It has expired, or may have.
  assertEquals(await isBelieved(grow, { call: () => ({ idleMs: 11 * 60_000 }) }), false);
  // Each call uses another model.
  assertEquals(await isBelieved(grow, { call: (at) => ({ model: `m${at}` }) }), false);
  assertEquals(await isBelieved(grow, { reported: () => ({ estimated: true }) }), false);
  // It misses sometimes.
  const seldom = (served: number, call: number) => ({ cachedTokens: call % 2 === 0 ? served : 0 });
  assertEquals(await isBelieved(grow, { reported: seldom }), false);
  // It charges for cache writes.
  const writes = { cacheWriteTokens: 2_000 };
  const anthropic = { profile: profileNamed("anthropic-5m") };
  assertEquals(await isBelieved(grow, { reported: () => writes, options: anthropic }), false);
  assertEquals(await isBelieved(grow, { options: { profile: profileNamed("local") } }), false);
});
