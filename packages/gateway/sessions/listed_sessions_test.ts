import { assert, assertAlmostEquals, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import {
  reportBlock,
  reportPins,
  reportPrompt,
  type SpendOptions,
  usageTotals,
} from "@tare/session/internal/report";
import { gateway, type GatewayOptions } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import { BASH, chatStep, longResult, SUMMARIZE } from "../agents_fixture_test.ts";
import { completion, gatewayed, OPTIONS, post, UPSTREAM } from "../fixture_test.ts";

function conversation(options: Partial<GatewayOptions> = {}) {
  const bodies: string[] = [];
  const { fetch, sessions } = gatewayed(({ text }) => {
    bodies.push(text);
    return completion({ content: "Hi" }, text.length / 4);
  }, { now: () => Date.UTC(2026, 0, 1), ...options });
  const messages: object[] = [{ role: "user", content: "Find the constants.\nAll four." }];
  let id = "";
  const ask = async (more: object = {}) => {
    const response = await fetch(post({ model: "m", messages, tools: [BASH], ...more }));
    id = response.headers.get("x-tare-session") ?? id;
    await response.text();
  };
  return {
    bodies,
    ask,
    messages,
    overview: () => sessions.overview(),
    openSession: async () => (await sessions.open(id))!,
    isKnown: async () => await sessions.open(id) !== undefined,
    async step(name: string) {
      messages.push(...chatStep(name, longResult(name)));
      await ask();
    },
  };
}

Deno.test("gateway() reports what a model sees, and restores pinned results at the next rewrite", async () => {
  const { step, openSession, bodies } = conversation();
  for (let at = 0; at < 7; at++) await step(`file${at}`);
  const prompt = reportPrompt(await (await openSession()).seen());
  const elided = prompt.blocks.find(({ state }) => state === "replaced")!;
  assert(prompt.tokens < prompt.originalTokens && elided.tokens < elided.originalTokens);
  const block = reportBlock(await (await openSession()).seen(), elided.id)!;
  assertStringIncludes(block.now!.text, "[elided: ");
  assertEquals(block.original!.text, longResult("file0"));
  const ref =
    /recall\((?:ref=)?"?([0-9a-f]{16})|([0-9a-f]{16})/.exec(block.now!.text)?.slice(1).find(Boolean) ?? "";
  assertEquals(await (await openSession()).archived(ref), longResult("file0"));
  assertEquals(await (await openSession()).archived("0123456789abcdef"), undefined);

  const place = elided.place!;
  const pin = { place, wish: "retain", by: "user" } as const;
  assertEquals(await (await openSession()).setPin({ place, wish: "retain" }), { ...pin, state: "waiting" });
  assert(!bodies.at(-1)!.includes(JSON.stringify(longResult("file0")).slice(1, -1)));
  for (let at = 7; at < 10; at++) await step(`file${at}`);
  assertEquals(reportPins(await (await openSession()).seen()), [{ ...pin, state: "done" }]);
  assert(bodies.at(-1)!.includes(JSON.stringify(longResult("file0")).slice(1, -1)));
  assertEquals(
    (await (await openSession()).calls()).flatMap(({ rewrites }) =>
      rewrites.flatMap(({ pins = [] }) => pins)
    ),
    [pin],
  );
  assertEquals([await (await openSession()).removePin(place), await (await openSession()).removePin(place)], [
    true,
    false,
  ]);
});

Deno.test("gateway() reports totals of calls that equal the ledger's", async () => {
  const { step, ask, openSession, overview, messages } = conversation({ holdout: 0 });
  for (let at = 0; at < 4; at++) await step(`file${at}`);
  await ask({ messages: [...messages, { role: "user", content: SUMMARIZE }] });
  const calls = await (await openSession()).calls();
  const reported = await overview();
  for (const name of ["promptTokens", "cachedTokens", "outputTokens", "costUnits"] as const) {
    const sum = calls.reduce((all, one) => all + one[name], 0);
    for (
      const totals of [
        await (await openSession()).details(),
        reported.all,
        reported.today,
        reported.groups.planned,
      ]
    ) {
      assertAlmostEquals(totals[name], sum);
    }
  }
  assertEquals(calls.map(({ purpose }) => purpose), [...Array(4).fill("turn"), "compaction"]);
  const { planned, holdout } = reported.groups;
  assertEquals([planned.sessions, planned.calls, holdout.sessions, holdout.calls], [1, 5, 0, 0]);
  assertEquals([(await (await openSession()).details()).title, reported.all.calls], [
    "Find the constants. All four.",
    5,
  ]);
});

Deno.test("gateway() rejects impossible changes with a reason", async () => {
  const { step, openSession } = conversation();
  await step("file0");
  for (
    const [pin, expected] of [
      [{ place: 0, wish: "evict" }, "Cannot evict message 0: it is the user's"],
      [
        { place: 99, wish: "retain" },
        "Cannot retain message 99: the session has 3 messages, numbered from 0.",
      ],
    ] as const
  ) await assertRejects(async () => await (await openSession()).setPin(pin), RangeError, expected);
  const holdout = conversation({ holdout: 1 });
  await holdout.step("file0");
  assertEquals([(await openSession()).noPins, (await holdout.openSession()).noPins], [
    undefined,
    "this session's prompts are sent unchanged",
  ]);
});

Deno.test("gateway() deletes a conversation and its stored state", async () => {
  const options = { store: memoryStore() };
  const first = conversation(options);
  for (let at = 0; at < 6; at++) await first.step(`file${at}`);
  const { id } = await first.openSession();
  const again = conversation(options);
  again.messages.push(...first.messages.slice(1));
  await again.ask();
  assertEquals((await again.openSession()).id, id);
  await (await again.openSession()).delete();
  assertEquals(await again.isKnown(), false);
  const later = conversation(options);
  later.messages.push(...first.messages.slice(1));
  await later.ask();
  assert((await later.openSession()).id !== id);
  assertEquals((await (await later.openSession()).calls()).length, 1);
});

Deno.test("gateway() lists its conversations, the newest first", async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const { fetch, sessions } = gatewayed(() => completion({ content: "Hi" }), { now: () => nowMs });
  const ids: string[] = [];
  for (const content of ["one", "two", "three"]) {
    const headers = { "user-agent": "some-agent/1.2 (linux)" };
    const response = await fetch(post({ model: "m", messages: [{ role: "user", content }] }, headers));
    await response.text();
    ids.unshift(response.headers.get("x-tare-session") ?? "");
    nowMs += 60_000;
  }
  const { sessions: list } = (await sessions.list({ limit: 9 }))!;
  assertEquals(list.map(({ id }) => id), ids);
  assertEquals(list[2], {
    ...usageTotals.nothing,
    ...{ kind: "gateway", id: ids[2]!, title: "one", protocol: "chat", model: "m", agent: "some-agent" },
    ...{ createdAt: "2026-01-01T00:00:00.000Z", lastAt: "2026-01-01T00:00:00.000Z" },
    ...{ holdout: false, reverted: false, epoch: 0, calls: 1, errors: 0, recalls: 0, compactions: 0 },
    ...{ promptTokens: 1000, cachedTokens: 0, outputTokens: 5, savedTokens: 0 },
    ...{ costUnits: 1000, baselineCostUnits: 1000, baselineCompactions: 0, compactionCostUnits: 0 },
    ...{ fittingCalls: 1, fittingCostUnits: 1000, resendCostUnits: 1000 },
    ...{ usd: 0, baselineUsd: 0, compactionUsd: 0, unpricedCalls: 1, estimatedCalls: 0, savedCostUnits: 0 },
    ...{ projectedCostUnits: 1000, projectedUsd: 0, refetchCostUnits: 0 },
    newCostUnits: 1000,
  });
  const second = await sessions.list({ limit: 1, after: ids[0], search: "TWO" });
  assertEquals(second, { sessions: [list[1]!], hasMore: false });
  assertEquals((await sessions.list({ limit: 2 }))?.hasMore, true);
  assertEquals(await sessions.list({ limit: 1, after: "nobody" }), undefined);
  assertEquals(await sessions.open("nobody"), undefined);
});

Deno.test("gateway() uses the clock of its store", async () => {
  const store = memoryStore({ now: () => Date.UTC(2026, 0, 1) });
  const { now: _, ...options } = OPTIONS;
  const fetch = () => Promise.resolve(completion({ content: "Hi" }));
  const { fetch: ask, sessions } = gateway({ ...options, store, fetch });
  await (await ask(post({ model: "m", messages: [{ role: "user", content: "a" }] })))?.text();
  const { sessions: [one] } = (await sessions.list({ limit: 9 }))!;
  assertEquals([one?.createdAt, one?.lastAt], Array(2).fill("2026-01-01T00:00:00.000Z"));
});

Deno.test("gateway() reports a conversation's costs, evictions with reasons, and compactions", async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const { ask, step, messages, openSession } = conversation({ now: () => nowMs += 1_000 });
  for (let at = 0; at < 8; at++) await step(`file${at}`);
  await ask({ messages: [...messages, { role: "user", content: SUMMARIZE }] });
  const session = await (await openSession()).details();
  assertEquals([session.id, session.calls, session.compactions], [(await openSession()).id, 9, 1]);
  assert(session.epoch > 0 && session.rewrites.length >= session.epoch);
  assert(session.prompt!.tokens > 0 && session.prompt!.evicted.prune > 0 && session.archiveBytes > 10_000);
  const { at, reason, removed, tokensBefore, tokensAfter } = session.rewrites.at(-1)!;
  assert(at.startsWith("2026-01-01T") && tokensBefore > tokensAfter);
  assertStringIncludes(removed, "old result");
  assertStringIncludes(reason, "tokens evicted");
  const [compaction] = session.compactionCalls;
  const { at: when, promptTokens, costUnits } = compaction!;
  assert(when > at && promptTokens > 0 && session.promptTokens > promptTokens);
  assertEquals([session.compactionCalls.length, session.compactionCostUnits], [1, costUnits]);
});

Deno.test("gateway() uses the cache rules and prices of the requested model", async () => {
  const profile = (model: string) => profileNamed(model === "a" ? "openai" : "deepseek");
  const usage = { prompt_tokens: 1000, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 500 } };
  const { fetch, sessions } = gatewayed(() => Response.json({ choices: [], usage }), {
    upstreams: { chat: { ...UPSTREAM, profile } },
  });
  for (const model of ["a", "b"]) {
    await (await fetch(post({ model, messages: [{ role: "user", content: `I am ${model}.` }] }))).text();
  }
  const { sessions: listed } = (await sessions.list({ limit: 9 }))!;
  const costs = listed.map(({ model, costUnits }) => [model, costUnits]);
  assertEquals(costs, [["b", 500 + 500 * profileNamed("deepseek").read], ["a", 550]]);
});

Deno.test("gateway() counts the turns of a conversation, also after its client begins a new history", async () => {
  const { fetch, sessions } = gatewayed(() =>
    completion({ content: "A summary of all that was done here." })
  );
  const user = (content: string) => ({ role: "user", content });
  const message = (content: string) => ({ role: "assistant", content });
  const look = [
    {
      role: "assistant",
      tool_calls: [{ id: "1", type: "function", function: { name: "bash", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "1", content: "A file." },
  ];
  const first = [user("Environment."), user("What is there, in all of these folders?")];
  const histories = [
    first,
    [...first, ...look],
    // A message during a turn belongs to it.
    [...first, ...look, user("And be quick.")],
    [...first, ...look, user("And be quick."), message("A file."), user("Thanks. And what is in it?")],
    [...first, ...look, user("And be quick."), message("A file."), user("Thanks. And what is in it?")],
    [...first, ...look, message("A file."), user(SUMMARIZE)],
    [user("Continue from this: A summary of all that was done here."), ...look],
    [
      user("Continue from this: A summary of all that was done here."),
      ...look,
      message("Done."),
      user("More?"),
    ],
  ];
  const headers = { "x-tare-session": "mine" };
  let id = "";
  for (const messages of histories) {
    const response = await fetch(post({ model: "m", messages, tools: [BASH] }, headers));
    id = response.headers.get("x-tare-session") ?? id;
    await response.text();
  }
  const calls = await (await sessions.open(id))!.calls();
  assertEquals(calls.map(({ turn, purpose }) => [turn, purpose]), [
    ...[1, 1, 1, 2, 2].map((turn) => [turn, "turn"]),
    [null, "compaction"],
    [2, "turn"],
    [3, "turn"],
  ]);
  assertEquals((await (await sessions.open(id))!.details()).agent, null);
});

Deno.test("gateway() reports each conversation's costs by day and model, with its agent", async () => {
  const DAY_MS = 24 * 60 * 60_000;
  let nowMs = Date.UTC(2026, 0, 1);
  const store = memoryStore();
  const options = { store, now: () => nowMs };
  const { fetch, sessions } = gatewayed(() => completion({ content: "Hi" }), options);
  const headers = { "user-agent": "some-agent/1.2 (linux)" };
  for (const [model, title] of [["a", "One"], ["b", "One"], ["b", "Two"]]) {
    const messages = [{ role: "user", content: `${title}: what do you say?` }];
    await (await fetch(post({ model, messages }, headers))).text();
    nowMs += DAY_MS;
  }
  const rows = async (of: typeof sessions, query: SpendOptions) =>
    (await of.spend(query)).rows.map(({ key, session, calls }) => [
      ...(session ? [session.title, session.model, session.agent] : [key]),
      calls,
    ]);
  const each = [["One: what do you say?", "b", "some-agent", 2], [
    "Two: what do you say?",
    "b",
    "some-agent",
    1,
  ]];
  assertEquals(await rows(sessions, { by: "session" }), each);
  const later = gatewayed(() => completion({}), options).sessions;
  assertEquals(await rows(later, { by: "session" }), each);
  assertEquals(await rows(later, { by: "session", to: "2026-01-01" }), [[...each[0]!.slice(0, 3), 1]]);
  // Spending remains when its session is deleted.
  await store.deleteSession((await store.listSessions())[0]!.id);
  assertEquals(await rows(sessions, { by: "day", to: "2026-01-02" }), [["2026-01-02", 1], ["2026-01-01", 1]]);
  assertEquals(await rows(sessions, { by: "model" }), [["b", 2], ["a", 1]]);
  assertEquals(await rows(sessions, { by: "agent" }), [["some-agent", 3]]);
  assertEquals(await rows(sessions, { by: "session" }), each.slice(0, 1));
  const forgetful = gatewayed(() => completion({ content: "Hi" }));
  await (await forgetful.fetch(post({ model: "m", messages: [{ role: "user", content: "Hello" }] }))).text();
  assertEquals(await rows(forgetful.sessions, { by: "session" }), [["Hello", "m", null, 1]]);
});
