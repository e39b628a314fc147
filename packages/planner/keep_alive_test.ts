import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import { plannerSession, profileNamed, type PromptSessionOptions, UNTRIED } from "./mod.ts";
import { promptCost } from "./parts.ts";

const PROFILE = profileNamed("anthropic-5m");
const MINUTE = 60_000;
const TEXT = "Some words of a conversation, said once. ".repeat(4_000);

function conversation(options: Partial<PromptSessionOptions> = {}) {
  const given = { profile: PROFILE, archive: memoryArchive(), countTokens: estimateTokens, ...options };
  let session = plannerSession(given);
  const messages: Message[] = [{ role: "user", content: TEXT }];
  return {
    get session() {
      return session;
    },
    restart() {
      session = plannerSession({
        ...given,
        state: JSON.parse(JSON.stringify(session.state)),
        advanced: { inspected: JSON.parse(JSON.stringify(session.inspected)) },
      });
    },
    async view(nowMs: number) {
      return await session.view({ messages, tools: [] }, { nowMs });
    },
    async call(nowMs: number, cached: "all" | "nothing") {
      const view = await session.view({ messages, tools: [] }, { nowMs });
      const history = messages.slice(0, -2);
      const before = history.length === 0
        ? 0
        : (await plannerSession(given).view({ messages: history, tools: [] }, { nowMs: 0 })).promptTokens;
      const usage = {
        promptTokens: view.promptTokens,
        cachedTokens: cached === "all" ? before : 0,
        outputTokens: 100,
      };
      const entry = session.sent(usage)!;
      messages.push({ role: "assistant", content: "Yes. ".repeat(100) }, {
        role: "user",
        content: "And then?",
      });
      return { entry, usage, view };
    },
    ping(atMs: number, type: "exact" | "upgrade", promptTokens: number) {
      const usage = { promptTokens, cachedTokens: promptTokens, outputTokens: 0 };
      return session.recordKeepAlive({
        type,
        atMs,
        usage: type === "exact"
          ? usage
          : { ...usage, promptTokens: promptTokens + 105, cacheWriteTokens: 100, hourWriteTokens: 100 },
      });
    },
  };
}

Deno.test("recordKeepAlive() extends a read prefix by five minutes for the planner, also after a restart", async () => {
  const talk = conversation();
  const { view } = await talk.call(0, "nothing");
  const cold = async (nowMs: number) => (await talk.view(nowMs)).predictedCachedTokens;
  talk.ping(280_000, "exact", view.promptTokens);
  talk.restart();
  const entry = (await talk.call(9 * MINUTE, "all")).entry;
  assertEquals(entry.predictedCachedTokens, view.promptTokens);
  assertEquals(entry.uncached.map(({ cause }) => cause), ["new"]);
  assert(await cold(10 * MINUTE) > view.promptTokens);
});

Deno.test("recordKeepAlive() without a cache hit, and no keep-alive request, leave a prefix cold", async () => {
  for (const isPinged of [false, true]) {
    const talk = conversation();
    const { view } = await talk.call(0, "nothing");
    if (isPinged) {
      const { isWarm, costUnits } = talk.session.recordKeepAlive({
        type: "exact",
        atMs: 280_000,
        usage: { promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 0 },
      });
      assertEquals([isWarm, costUnits], [false, 1.25 * view.promptTokens]);
    }
    // The request made it warm.
    const { entry } = await talk.call(9 * MINUTE, isPinged ? "all" : "nothing");
    assertEquals(entry.uncached.map(({ cause }) => cause), isPinged ? ["new"] : ["expired", "new"]);
  }
});

Deno.test("recordKeepAlive() with an extended keep-alive gives an hour from then, and from each request that reads the prefix", async () => {
  const talk = conversation();
  const { view } = await talk.call(0, "nothing");
  const { upgrade } = talk.ping(280_000, "upgrade", view.promptTokens);
  assertEquals(upgrade, { of: "bill", isGood: true });
  talk.restart();
  const back = await talk.call(60 * MINUTE, "all");
  assertEquals(back.entry.uncached.map(({ cause }) => cause), ["new"]);
  assertEquals(back.entry.keepAlive?.upgrade, { of: "return", isGood: true });
  // New content lives for five minutes, extended content for an hour from now.
  talk.restart();
  const { entry } = await talk.call(110 * MINUTE, "all");
  assertAlmostEquals(entry.predictedCachedTokens, view.promptTokens, 1);
  assertEquals(entry.keepAlive?.upgrade, undefined);
  assert(entry.keepAlive!.creditCostUnits > 1.1 * view.promptTokens);
  talk.restart();
  const late = await talk.call(240 * MINUTE, "nothing");
  assertEquals(late.entry.uncached[0]?.cause, "expired");
  assertEquals(late.entry.keepAlive, undefined);
});

Deno.test("sent() learns nothing about the usual lifetime from a prefix with an hour's", async () => {
  const learned = async (isUpgraded: boolean) => {
    const talk = conversation();
    const { view } = await talk.call(0, "nothing");
    if (isUpgraded) talk.ping(280_000, "upgrade", view.promptTokens);
    await talk.call(50 * MINUTE, "all");
    const { planner } = talk.session.state as { planner: { cacheLifetime: { weights: readonly number[] } } };
    return planner.cacheLifetime.weights.length > 0;
  };
  assertEquals([await learned(true), await learned(false)], [false, true]);
});

Deno.test("sent() records keep-alive requests and their savings; the baseline has none", async () => {
  const talk = conversation();
  const first = await talk.call(0, "nothing");
  assertEquals(first.entry.savedCostUnits, 0);
  const tokens = first.view.promptTokens;
  const ping = talk.ping(280_000, "exact", tokens);
  assertAlmostEquals(ping.costUnits, 0.1 * tokens);
  assertAlmostEquals(ping.savedCostUnits, -0.1 * tokens);
  const { entry, usage } = await talk.call(9 * MINUTE, "all");
  // Everything served would have been written.
  assertEquals(entry.keepAlive, { retainedTokens: tokens, creditCostUnits: 1.15 * tokens });
  assertEquals(entry.baseline, { ...usage, cachedTokens: 0, outputTokens: 100 });
  assertAlmostEquals(entry.baselineCostUnits, promptCost(PROFILE, { ...usage, cachedTokens: 0 }));
  assertAlmostEquals(entry.savedCostUnits, 1.15 * tokens - 0.1 * tokens, 1e-6);
  // A return in time would have found it warm.
  const next = await talk.call(10 * MINUTE, "all");
  assertEquals(next.entry.keepAlive, undefined);
  assertEquals(next.entry.baseline, { ...next.usage, outputTokens: 100 });
});

Deno.test("invariant 11: without evictions and keep-alive the estimated saving is 0; in a dry run only keep-alive counts", async () => {
  for (const dryRun of [false, true]) {
    const talk = conversation({ dryRun });
    for (const [at, minutes] of [0, 1, 9, 10, 200].entries()) {
      const { entry } = await talk.call(minutes * MINUTE, [1, 3].includes(at) ? "all" : "nothing");
      assertEquals([entry.savedCostUnits, entry.keepAlive], [0, undefined]);
    }
    const { view } = await talk.call(201 * MINUTE, "all");
    const { costUnits } = talk.ping(201 * MINUTE + 280_000, "exact", view.promptTokens);
    const { entry } = await talk.call(210 * MINUTE, "all");
    assertAlmostEquals(entry.savedCostUnits, 11.5 * costUnits - costUnits, 1e-6);
  }
});

Deno.test("nextKeepAlive() of a session uses its own calls and prices, and a fork's own costs", async () => {
  const talk = conversation({ profile: { ...PROFILE, price: { input: 3, output: 15 } } });
  const idle = { pending: "tool", trial: UNTRIED } as const;
  assertThrows(
    () => talk.ping(0, "exact", 1),
    Error,
    "Cannot record a keep-alive request: nothing was sent. Call sent() first.",
  );
  assertEquals(talk.session.nextKeepAlive({ ...idle, nowMs: 0 }), undefined);
  let tokens = 0;
  for (let minute = 0; minute < 10; minute++) {
    const { view } = await talk.call(minute * MINUTE, minute === 0 ? "nothing" : "all");
    tokens = view.promptTokens;
  }
  const nowMs = 9 * MINUTE;
  const plan = talk.session.nextKeepAlive({ pending: "tool", nowMs })!;
  assertEquals([plan.type, plan.atMs], ["exact", nowMs + 280_000]);
  assertAlmostEquals(plan.costUnits, 0.1 * tokens);
  talk.restart();
  assertEquals(talk.session.nextKeepAlive({ pending: "tool", nowMs }), plan);
  assertEquals(talk.session.nextKeepAlive({ pending: "tool", nowMs: nowMs + 301_000 }), undefined);
  talk.ping(plan.atMs, "exact", tokens);
  const fork = talk.session.fork(1, memoryArchive());
  // It has paid nothing yet, so it may lose nothing.
  assertEquals(fork.nextKeepAlive({ pending: "tool", nowMs: plan.atMs }), undefined);
});
