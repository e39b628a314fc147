import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { CacheKeepAlive } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import type { Overview } from "@tare/session/internal/report";
import type { LoopEvent, TurnLedger } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import type { AssistantMessage, Tool, Usage } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import type { HttpAgent } from "@tare/server";
import { MessageWriter } from "@tare/wire/internal";
import { agent, call, events, newSession, request, type TestOptions, turn } from "../fixture_test.ts";
import { follow, toolCall } from "../approvals/fixture_test.ts";

const MINUTE = 60_000;

class Timers {
  nowMs = 1_000_000_000;
  #waiting: { readonly atMs: number; readonly work: () => void }[] = [];

  readonly after = (ms: number, work: () => void): () => void => {
    const timer = { atMs: this.nowMs + ms, work };
    this.#waiting.push(timer);
    return () => this.#waiting = this.#waiting.filter((other) => other !== timer);
  };

  get waiting(): readonly number[] {
    return this.#waiting.map(({ atMs }) => atMs - this.nowMs);
  }

  async pass(ms: number, settle: () => Promise<void>): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      const next = this.#waiting.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (!next || next.atMs > endMs) break;
      this.nowMs = next.atMs;
      this.#waiting = this.#waiting.filter((other) => other !== next);
      next.work();
      await settle();
    }
    this.nowMs = endMs;
  }
}

/** A Messages provider that calls the tool `slow` when instructed to work. Its cache lives for five minutes. */
function messagesProvider(now: () => number) {
  /** Requests in short form: a ping requests no reply. */
  const requests: string[] = [];
  const usages: Usage[] = [];
  let held: { readonly prompt: string; readonly usedMs: number } | undefined;
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { system, tools, messages, max_tokens: most, stream } = await new Request(input, init).json();
    const blocks = [
      ...system,
      ...tools,
      ...messages.flatMap(({ content }: { content: object[] }) => content),
    ];
    const prompt = blocks.map((block) => `${JSON.stringify({ ...block, cache_control: undefined })}\n`).join(
      "",
    );
    const isHeld = held && now() - held.usedMs <= 5 * MINUTE && prompt.startsWith(held.prompt);
    const cachedTokens = isHeld && held ? held.prompt.length : 0;
    held = { prompt, usedMs: now() };
    requests.push(`${most === 0 ? "ping" : "call"} ${isHeld ? "reads" : "writes"}`);
    const cacheWriteTokens = prompt.length - cachedTokens;
    const outputTokens = most === 0 ? 0 : 5;
    const promptTokens = prompt.length;
    const usage = { promptTokens, cachedTokens, cacheWriteTokens, hourWriteTokens: 0, outputTokens };
    usages.push(usage);
    const works = messages.at(-1).content.at(-1).text === "Work.";
    const message: AssistantMessage = works
      ? { role: "assistant", content: null, tool_calls: [toolCall(`call_${messages.length}`, "slow")] }
      : { role: "assistant", content: "Done." };
    const reply = { id: "1", model: "m", message, finishReason: works ? "tool_calls" : "stop", usage };
    if (!stream) return Response.json(new MessageWriter(reply).body());
    return new Response(
      new MessageWriter(reply).events().map((event) =>
        `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
      ).join(
        "",
      ),
    );
  };
  return { requests, usages, fetch };
}

function newWorld() {
  const timers = new Timers();
  const keepAlives: CacheKeepAlive[] = [];
  return { timers, provider: messagesProvider(() => timers.nowMs), keepAlives };
}

function served(options: TestOptions = {}, world = newWorld()) {
  const { timers, provider, keepAlives } = world;
  const now = () => timers.nowMs;
  const errors: unknown[] = [];
  const { requests, fetch } = provider;
  const keepAlive = new CacheKeepAlive({
    ...{ now, after: timers.after },
    onError: (error) => errors.push(error),
  });
  keepAlives.push(keepAlive);
  const release = Promise.withResolvers<string>();
  const began = Promise.withResolvers<void>();
  const slow: Tool = {
    definition: { type: "function", function: { name: "slow", parameters: { type: "object" } } },
    run: (_args, { signal }) => {
      began.resolve();
      const stopped = new Promise<string>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason))
      );
      return Promise.race([release.promise, stopped]);
    },
  };
  const server = agent(anthropicModel({ model: "m", baseURL: "http://provider", fetch }), {
    ...{ now, profile: PROFILE, price: () => PRICE, tools: [slow], keepAlive },
    instructions: "Be brief. ".repeat(PREFIX / 10 + 10),
    windowTokens: 1_000_000,
    onError: (error) => errors.push(error),
    ...options,
  });
  const settle = async () => {
    const waiting = () => keepAlives.reduce((sum, one) => sum + one.waiting, 0);
    while (waiting() > timers.waiting.length) await new Promise((resolve) => setTimeout(resolve));
  };
  return {
    bill: () => provider.usages.reduce((sum, usage) => sum + promptCost(PROFILE, usage), 0),
    ...{
      requests,
      errors,
      server,
      timers,
      keepAlive,
      world,
      began: began.promise,
      release: () => release.resolve("done"),
    },
    pass: (ms: number) => timers.pass(ms, settle),
    /** A session whose prefix has been paid for often enough to afford keep-alive requests. */
    async session(): Promise<string> {
      const session = await newSession(server);
      for (let turns = 0; turns < 12; turns++) {
        await turn(server, session, "Hello.");
        await timers.pass(6 * MINUTE, settle);
      }
      requests.length = 0;
      return session;
    },
  };
}

/** Pending approvals. */
async function approvalsOf(server: HttpAgent, path: string) {
  const { body } = await call(server, "GET", `${path}/approvals`);
  return (body as { approvals: readonly { id: string }[] }).approvals;
}

const PROFILE = profileNamed("anthropic-5m");

const PRICE = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 };

const PREFIX = 10_000;

Deno.test(
  "cache keep-alive: a prompt stays cached while a tool runs for twelve minutes, and is written again without it",
  async () => {
    for (const keeps of [true, false]) {
      const { requests, errors, server, session, pass, timers, keepAlive, began, release } = served(
        keeps ? {} : { keepAlive: "off" },
      );
      const path = await session();
      const playing = turn(server, path, "Work.");
      await began;
      await pass(12 * MINUTE);
      release();
      const seen = await playing;
      assertEquals(
        requests,
        keeps ? ["call writes", "ping reads", "ping reads", "call reads"] : ["call writes", "call writes"],
      );
      // After the answer a user may send a request, until the cache expires.
      assertEquals([errors, timers.waiting, keepAlive.waiting], [[], keeps ? [280_000] : [], keeps ? 1 : 0]);
      assertEquals(seen.at(-1)?.event.type, "turn_end");
      await server.close();
    }
  },
);

Deno.test("cache keep-alive: session and turn ledgers contain the cost and estimated saving of the bill", async () => {
  const bills: number[] = [];
  for (const keeps of [true, false]) {
    const { bill, server, session, pass, began, release } = served(keeps ? {} : { keepAlive: "off" });
    const path = await session();
    const playing = turn(server, path, "Work.");
    await began;
    await pass(12 * MINUTE);
    release();
    const { ledger: turnLedger } = (await playing).at(-1)!.event as Extract<LoopEvent, { type: "turn_end" }>;
    const { all } = (await call(server, "GET", "/tare/v1/overview")).body as Overview;
    bills.push(bill());
    assertAlmostEquals(all.costUnits, bill());
    assertEquals(all.keepAliveRequests, keeps ? 2 : 0);
    const { ledger } = (await call(server, "GET", path)).body as { ledger: TurnLedger };
    assertAlmostEquals(ledger.usd ?? 0, all.usd);
    assertEquals(turnLedger.calls, 2);
    assert((turnLedger.costUnits ?? 0) > all.keepAliveCostUnits);
    if (keeps) bills.push(all.baselineCostUnits);
    await server.close();
  }
  const [paid = 0, claimed = 0, without = 0] = bills;
  // The shared tokens of two prompts are counted differently from the provider.
  assertAlmostEquals(claimed, without, without / 200);
  assert(paid < without - PREFIX, `${paid} against ${without}`);
});

Deno.test("cache keep-alive: a prompt stays cached with few requests while an approval is pending", async () => {
  const { requests, server, session, pass, timers, keepAlive, release } = served({ approvals: {} });
  const path = await session();
  const spent = async () => ((await call(server, "GET", "/tare/v1/overview")).body as Overview).all.usd;
  const before = await spent();
  await turn(server, path, "Work.");
  await pass(60 * MINUTE);
  assertEquals(requests, ["call writes", "ping reads", "ping reads", "ping reads"]);
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  const [open] = await approvalsOf(server, path);
  release();
  const answer = { decision: "allow" };
  assertEquals((await call(server, "POST", `${path}/approvals/${open?.id}`, answer)).status, 200);
  const seen = await follow(server, path, 0);
  const { whole } = seen.at(-1)!.event as Extract<LoopEvent, { type: "turn_end" }>;
  const { all } = (await call(server, "GET", "/tare/v1/overview")).body as Overview;
  const { ledger } = (await call(server, "GET", path)).body as { ledger: TurnLedger };
  assertAlmostEquals(ledger.usd ?? 0, all.usd);
  assertAlmostEquals(whole?.usd ?? 0, all.usd - before);
  await server.close();
});

Deno.test("cache keep-alive: a cancelled turn and a closed server leave no timers", async () => {
  const { requests, server, session, pass, timers, keepAlive, began } = served();
  const path = await session();
  const playing = turn(server, path, "Work.");
  await began;
  await pass(0);
  assertEquals([keepAlive.waiting, timers.waiting], [1, [280_000]]);
  await call(server, "POST", `${path}/cancel`);
  await playing;
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  const other = turn(server, path, "Work.");
  while (keepAlive.waiting === 0) await new Promise((resolve) => setTimeout(resolve));
  assertEquals(timers.waiting, [280_000]);
  await server.close();
  await other;
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  await pass(60 * MINUTE);
  assertEquals(requests, ["call writes", "call reads"]);
});

Deno.test("cache keep-alive: an idle session is kept alive only on request, until its deletion", async () => {
  const { requests, server, session, pass, timers, keepAlive } = served();
  const path = await session();
  const keepAliveFor = (minutes: number) => call(server, "POST", `${path}/keep_alive`, { minutes });
  assertEquals((await keepAliveFor(60)).status, 409);
  await turn(server, path, "Hello.");
  const { status, body } = await keepAliveFor(8);
  assertEquals(status, 200);
  assertEquals((body as { until: string }).until, new Date(timers.nowMs + 8 * MINUTE).toISOString());
  await pass(60 * MINUTE);
  assertEquals(requests, ["call writes", "ping reads"]);
  const { all } = (await call(server, "GET", "/tare/v1/overview")).body as Overview;
  assert(all.keepAliveUsd <= (body as { maxUsd: number }).maxUsd);
  const { ledger } = (await call(server, "GET", path)).body as { ledger: TurnLedger };
  assertAlmostEquals(ledger.usd ?? 0, all.usd);
  // A requested hour applies, even if its use is improbable.
  await turn(server, path, "Hello.");
  assertEquals((await keepAliveFor(60)).status, 200);
  await pass(3 * 60 * MINUTE);
  assertEquals(requests.slice(3), Array(12).fill("ping reads"));
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  await turn(server, path, "Hello.");
  assertEquals((await keepAliveFor(60)).status, 200);
  assertEquals([keepAlive.waiting, timers.waiting], [1, [280_000]]);
  await call(server, "DELETE", path);
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  await server.close();
});

Deno.test("cache keep-alive: a closed server stops requested keep-alive", async () => {
  const { requests, server, session, pass, timers, keepAlive } = served();
  const path = await session();
  await turn(server, path, "Hello.");
  assertEquals((await call(server, "POST", `${path}/keep_alive`, { minutes: 60 })).status, 200);
  assertEquals([keepAlive.waiting, timers.waiting], [1, [280_000]]);
  await server.close();
  assertEquals([keepAlive.waiting, timers.waiting], [0, []]);
  await pass(60 * MINUTE);
  assertEquals(requests, ["call writes"]);
});

Deno.test("POST keep_alive reports why a session's cache can't be kept alive", async () => {
  const reasons: [TestOptions, number, string][] = [
    [{ keepAlive: "off" }, 400, "cache keep-alive is off"],
    [{ price: () => undefined }, 400, "the price of its model is unknown"],
    [{ profile: profileNamed("openai") }, 409, "there is no cache"],
    [{ instructions: "Be brief." }, 409, "there is no cache"],
  ];
  for (const [options, status, reason] of reasons) {
    const { server } = served(options);
    const path = await newSession(server);
    await turn(server, path, "Hello.");
    const refused = await call(server, "POST", `${path}/keep_alive`, { minutes: 60 });
    assertEquals(refused.status, status);
    assertStringIncludes((refused.body as { error: { message: string } }).error.message, reason);
    await server.close();
  }
});

Deno.test("cache keep-alive: a server stops it for a session that another server continues", async () => {
  const memory = sharedMemory();
  const approvals = {};
  const a = served({ store: memory.open().store, approvals });
  const path = await a.session();
  const b = served({ store: memory.open().store, approvals }, a.world);
  await turn(a.server, path, "Work.");
  await a.pass(5 * MINUTE);
  assertEquals(a.requests, ["call writes", "ping reads"]);
  const [open] = await approvalsOf(b.server, path);
  const answer = { decision: "allow" };
  assertEquals((await call(b.server, "POST", `${path}/approvals/${open?.id}`, answer)).status, 200);
  await b.began;
  await a.pass(60 * MINUTE);
  assertEquals([a.requests, a.keepAlive.waiting, b.keepAlive.waiting], [["call writes", "ping reads"], 0, 0]);
  b.release();
  await follow(b.server, path, 0);
  const { ledger } = (await call(a.server, "GET", path)).body as { ledger: TurnLedger };
  const { all } = (await call(a.server, "GET", "/tare/v1/overview")).body as Overview;
  assertEquals(all.keepAliveRequests, 1);
  assertAlmostEquals(ledger.usd ?? 0, all.usd);
  assertEquals([a.errors, b.errors], [[], []]);
  await a.server.close();
  await b.server.close();
});

Deno.test("cache keep-alive: its cost outlives a restart, which ends it", async () => {
  const store = memoryStore();
  const before = served({ store, approvals: {} });
  const path = await before.session();
  await turn(before.server, path, "Work.");
  await before.pass(5 * MINUTE);
  const { ledger } = (await call(before.server, "GET", path)).body as { ledger: TurnLedger };
  before.keepAlive.close();
  const after = served({ store, approvals: {} }, before.world);
  const { ledger: again } = (await call(after.server, "GET", path)).body as { ledger: TurnLedger };
  assertEquals(again, ledger);
  const { all } = (await call(after.server, "GET", "/tare/v1/overview")).body as Overview;
  assertAlmostEquals(again.usd ?? 0, all.usd);
  assertEquals(all.keepAliveRequests, 1);
  await after.pass(60 * MINUTE);
  assertEquals([after.requests, after.keepAlive.waiting], [["call writes", "ping reads"], 0]);
  await after.server.close();
  await before.server.close();
});

Deno.test("cache keep-alive: a budget in dollars includes its cost", async () => {
  const costs: number[] = [];
  for (const keepAlive of ["off", "off", undefined] as const) {
    const { server, session, pass, began, release } = served(keepAlive && { keepAlive });
    const path = await session();
    // Cost of the first call, and half a keep-alive request.
    const budget = { maxUsd: (costs[0] ?? 1) * (1 + 0.04) };
    const playing = server.fetch(request("POST", `${path}/turns`, { input: "Work.", budget }));
    await began;
    await pass(5 * MINUTE);
    release();
    const seen = await events(await playing);
    const end = seen.at(-1)!.event as Extract<LoopEvent, { type: "turn_end" }>;
    const step = seen.find(({ event }) => event.type === "step_end")!.event;
    costs.push((step as Extract<LoopEvent, { type: "step_end" }>).cost?.usd ?? 0);
    assertEquals(end.reason, keepAlive === "off" ? "completed" : "budget");
    await server.close();
  }
});
