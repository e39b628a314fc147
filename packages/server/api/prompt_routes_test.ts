import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import type {
  CallReport,
  Overview,
  PinReport,
  PromptReport,
  reportBlock,
} from "@tare/session/internal/report";
import { memoryStore } from "@tare/session/sqlite";
import type { TurnLedger } from "@tare/loop";
import type { Model, Tool } from "@tare/messages";
import { profileNamed, type Quote } from "@tare/planner";
import type { HttpAgent } from "@tare/server";
import {
  agent,
  call,
  echo,
  error,
  events,
  newSession,
  refused,
  request,
  scriptedModel,
  turn,
  UNREPORTED,
} from "../fixture_test.ts";
import type { SessionSpend } from "./session_spend.ts";

const LONG = "word ".repeat(4_000);

function echoing(): { readonly model: Model; readonly requests: string[] } {
  const requests: string[] = [];
  let made = 0;
  const model: Model = async function* (request) {
    requests.push(JSON.stringify(request.messages));
    const asks = request.messages.at(-1)?.role === "user";
    const toolCall = {
      id: `c${++made}`,
      type: "function",
      function: { name: "echo", arguments: JSON.stringify({ text: `${made} ${LONG}` }) },
    } as const;
    yield* scriptedModel([asks ? { tool_calls: [toolCall] } : { content: "Done." }], UNREPORTED)(request);
  };
  return { model, requests };
}

async function get<T>(handler: HttpAgent, path: string): Promise<T> {
  const { status, body } = await call(handler, "GET", path);
  assertEquals(status, 200, JSON.stringify(body));
  return body as T;
}

const pinsOf = async (handler: HttpAgent, session: string) =>
  (await get<{ readonly pins: readonly PinReport[] }>(handler, `${session}/pins`)).pins;

const callsOf = async (handler: HttpAgent, session: string) =>
  (await get<{ readonly calls: readonly CallReport[] }>(handler, `${session}/calls`)).calls;

async function standing(handler: HttpAgent, session: string): Promise<string[]> {
  const { blocks } = await get<PromptReport>(handler, `${session}/prompt`);
  return blocks.filter(({ kind }) => kind !== "tool").map(({ id, state }) => `${id} ${state}`);
}

async function play(handler: HttpAgent, session: string, inputs: string): Promise<void> {
  for (const input of inputs) await turn(handler, session, input);
}

Deno.test("promptRoutes() return the prompt and restore retained messages at the next rewrite, also after a restart", async () => {
  const { model, requests } = echoing();
  const store = memoryStore();
  let handler = agent(model, { store });
  const session = await newSession(handler);
  await play(handler, session, "abcd");
  const before = [
    ...["message-0 visible", "message-1 visible", "message-2 evicted", "message-3 evicted", "line-0 visible"],
    ...["message-4 visible", "message-5 visible", "message-6 evicted", "message-7 evicted", "line-1 visible"],
    ...[
      "message-8 visible",
      "message-9 visible",
      "message-10 visible",
      "message-11 replaced",
      "message-12 visible",
    ],
    ...["message-13 visible", "message-14 visible", "message-15 visible", "message-16 visible"],
  ];
  assertEquals(await standing(handler, session), before);
  const ask = async (body: object) => (await call(handler, "POST", `${session}/pins`, body)).body;
  const wished = [
    { place: 3, wish: "retain", by: "user" },
    { place: 11, wish: "retain", by: "ada" },
    { place: 15, wish: "evict", by: "user" },
  ] as const;
  for (const { place, wish, by } of wished) {
    assertEquals(await ask({ place, wish, ...(by !== "user" && { by }) }), {
      place,
      wish,
      by,
      state: "waiting",
    });
  }
  assertEquals(await standing(handler, session), before);

  handler = agent(model, { store });
  assertEquals(await pinsOf(handler, session), wished.map((pin) => ({ ...pin, state: "waiting" })));
  await play(handler, session, "e");
  assertEquals(await pinsOf(handler, session), wished.map((pin) => ({ ...pin, state: "done" })));
  assertEquals((await standing(handler, session)).slice(0, 17), [
    ...["message-0 visible", "message-1 visible", "message-2 visible", "message-3 visible"],
    ...["message-4 visible", "message-5 visible", "message-6 evicted", "message-7 evicted", "line-0 visible"],
    ...[
      "message-8 visible",
      "message-9 visible",
      "message-10 visible",
      "message-11 visible",
      "message-12 visible",
    ],
    ...["message-13 visible", "message-14 visible", "message-15 replaced"],
  ]);
  const rewritesOf = (await callsOf(handler, session)).flatMap(({ number, rewrites }) =>
    rewrites.filter(({ pins }) => pins).map(({ mechanism, removed, pins }) => ({
      number,
      mechanism,
      removed,
      pins,
    }))
  );
  assertEquals(rewritesOf, [{
    number: 9,
    mechanism: "planner",
    removed: "message 15 as requested; messages 3, 11 restored as requested",
    pins: [wished[2], wished[0], wished[1]],
  }]);

  const twin = agent(echoing().model, { store });
  await play(handler, session, "fg");
  const visible = await standing(handler, session);
  assertEquals(
    visible.filter((one) => /^message-(3|11|15) /.test(one)),
    ["message-3 visible", "message-11 visible", "message-15 evicted"],
  );
  assertEquals(await standing(twin, session), visible);
  assert(requests.at(-1)?.includes(`1 ${LONG}`));

  assertEquals((await call(handler, "DELETE", `${session}/pins/3`)).status, 204);
  await play(handler, session, "h");
  assertEquals((await standing(handler, session)).slice(2, 5), [
    "message-2 evicted",
    "message-3 evicted",
    "line-0 visible",
  ]);
  assertEquals((await pinsOf(handler, session)).map(({ place }) => place), [11, 15]);
});

Deno.test("promptRoutes() return a block's current and original text, paginated", async () => {
  const handler = agent(echoing().model);
  const session = await newSession(handler);
  await play(handler, session, "ab");
  const block = await get<NonNullable<ReturnType<typeof reportBlock>>>(
    handler,
    `${session}/prompt/message-3`,
  );
  const { now, original, ...about } = block;
  const begins = { title: about.title.slice(0, 12), subject: about.subject?.slice(0, 12) };
  assertEquals({ ...about, ...begins }, {
    ...{ id: "message-3", kind: "message", role: "tool", tool: "echo", subject: "1 word word ", place: 3 },
    ...{ tokens: 21, originalTokens: 5_005, state: "replaced", pin: null, title: "1 word word " },
    mayPin: ["retain", "evict"],
  });
  assertMatch(now!.text, /^\[elided: echo result, 20002 bytes; recall with ref [0-9a-f]{16}\]$/);
  assertEquals([original!.text, original!.offset, original!.chars], [`1 ${LONG}`, 0, 20_002]);
  const rest = await get<NonNullable<ReturnType<typeof reportBlock>>>(
    handler,
    `${session}/prompt/message-3?offset=19992`,
  );
  assertEquals(rest.original, { text: "word word ", offset: 19_992, chars: 20_002 });
  const tool = await get<NonNullable<ReturnType<typeof reportBlock>>>(handler, `${session}/prompt/tool-0`);
  assertEquals([tool.kind, JSON.parse(tool.original!.text).name, tool.place], ["tool", "echo", null]);
  assertEquals(
    await refused(handler, "GET", `${session}/prompt/message-99`),
    error(
      404,
      "not_found",
      `Cannot find message-99: the prompt of session ${session.split("/").at(-1)} has no such block.`,
    ),
  );
});

Deno.test("promptRoutes() return totals that equal the ledger's", async () => {
  let nowMs = Date.UTC(2026, 0, 1, 12);
  const handler = agent(
    scriptedModel([{ content: "a" }, { content: "b" }, { content: "c" }], {
      ...{ promptTokens: 1_000, cachedTokens: 400, cacheWriteTokens: 100, outputTokens: 50 },
    }),
    { price: () => ({ input: 10, output: 20 }), now: () => nowMs },
  );
  const session = await newSession(handler);
  await play(handler, session, "ab");
  nowMs += 24 * 60 * 60 * 1000;
  await play(handler, session, "c");
  const { ledger } = await get<{ readonly ledger: TurnLedger }>(handler, session);
  const calls = await callsOf(handler, session);
  const sum = (of: (call: CallReport) => number | null) =>
    calls.reduce((all, call) => all + (of(call) ?? 0), 0);
  const { all, today, groups } = await get<Overview>(handler, "/tare/v1/overview");
  for (const name of ["promptTokens", "cachedTokens", "outputTokens", "costUnits", "usd"] as const) {
    assertAlmostEquals(sum((call) => call[name]), ledger[name]!);
    assertAlmostEquals(all[name], ledger[name]!);
    assertAlmostEquals(today[name], ledger[name]! / 3);
  }
  assertEquals(calls.map(({ at }) => at), [
    "2026-01-01T12:00:00.000Z",
    "2026-01-01T12:00:00.000Z",
    "2026-01-02T12:00:00.000Z",
  ]);
  assertEquals(
    calls.map((
      { number, turn, cachedTokens, writtenTokens, newTokens },
    ) => [number, turn, cachedTokens, writtenTokens, newTokens]),
    [[1, 1, 400, 100, 500], [2, 2, 400, 100, 500], [3, 3, 400, 100, 500]],
  );
  assertEquals([all.calls, today.calls, groups.planned.sessions, groups.holdout.sessions], [3, 1, 1, 0]);
  assertEquals(sum(({ baseline }) => baseline!.costUnits), all.baselineCostUnits);
  assertAlmostEquals(sum(({ baseline }) => baseline!.usd), all.baselineUsd);
  assertEquals(sum(({ resendCostUnits }) => resendCostUnits), all.resendCostUnits);
  const page = await get<{ readonly calls: readonly CallReport[]; readonly hasMore: boolean }>(
    handler,
    `${session}/calls?limit=1&after=1`,
  );
  assertEquals([page.calls.map(({ number }) => number), page.hasMore], [[2], true]);
});

Deno.test("promptRoutes() count a call on the day of its answer, however long its tools run", async () => {
  let nowMs = Date.UTC(2026, 0, 1, 23);
  const late: Tool = {
    ...echo,
    run() {
      nowMs += 2 * 60 * 60 * 1000;
      return "late";
    },
  };
  const model = scriptedModel([{
    tool_calls: [{ id: "1", type: "function", function: { name: "echo", arguments: '{"text":""}' } }],
  }, { content: "a" }]);
  const handler = agent(model, { tools: [late], now: () => nowMs });
  const session = await newSession(handler);
  await play(handler, session, "a");
  assertEquals((await callsOf(handler, session)).map(({ at }) => at), [
    "2026-01-01T23:00:00.000Z",
    "2026-01-02T01:00:00.000Z",
  ]);
  const { all, today } = await get<Overview>(handler, "/tare/v1/overview");
  assertEquals([all.calls, today.calls], [2, 1]);
});

Deno.test("promptRoutes() quote the evictions of a turn that evicts everything, at any cost", async () => {
  const long = { type: "function", function: { name: "long", arguments: "{}" } } as const;
  let made = 0;
  const model: Model = async function* (request) {
    const asks = request.messages.at(-1)?.role === "user";
    const reply = asks ? { tool_calls: [{ ...long, id: `c${++made}` }] } : { content: LONG };
    yield* scriptedModel([reply], UNREPORTED)(request);
  };
  const tool: Tool = {
    ...echo,
    definition: { type: "function", function: { name: "long" } },
    run: () => LONG.slice(0, 10_000),
  };
  const handler = agent(model, { profile: profileNamed("openai"), tools: [tool] });
  const [session, other] = [await newSession(handler), await newSession(handler)];
  for (const path of [session, other]) await play(handler, path, "a");
  const { asIs, rewritten } = await get<Quote>(handler, `${session}/quote`);
  assert(rewritten.promptTokens < asIs.promptTokens - 2_000);
  const body = { input: "b", evictNow: true };
  const seen = await events(await handler.fetch(request("POST", `${session}/turns`, body)));
  const rewrites = seen.flatMap(({ event }) => event.type === "context_rewritten" ? [event] : []);
  assertEquals(rewrites.map(({ step, reason }) => [step, reason]), [[1, "requested"]]);
  assert(rewrites[0]!.tokensAfter < rewrites[0]!.tokensBefore - 2_000);
  // By cost alone it would have stayed.
  await play(handler, other, "b");
  const before = async (path: string) => (await standing(handler, path)).slice(1, 5);
  const how = (state: string) => [
    "message-1 visible",
    "message-2 visible",
    `message-3 ${state}`,
    "message-4 visible",
  ];
  assertEquals([await before(session), await before(other)], [how("replaced"), how("visible")]);
  const message =
    "Cannot evict now in the background: evictNow is for a turn that begins immediately. Use one of them.";
  assertEquals(
    await refused(handler, "POST", `${session}/turns`, { ...body, background: true }),
    error(400, "invalid_request", message),
  );
});

Deno.test("promptRoutes() refuse invalid pins with the reason", async () => {
  const handler = agent(echoing().model);
  const session = await newSession(handler);
  await play(handler, session, "a");
  const path = `${session}/pins`;
  for (
    const [body, message] of [
      [{ place: 0, wish: "retain" }, "Cannot retain message 0: instructions are never evicted."],
      [{ place: 9, wish: "retain" }, "Cannot retain message 9: the session has 5 messages, numbered from 0."],
      [
        { place: 1, wish: "evict" },
        "Cannot evict message 1: it is the user's. Only tool results can be evicted.",
      ],
    ] as const
  ) {
    assertEquals(await refused(handler, "POST", path, body), error(400, "invalid_request", message));
  }
  assertEquals((await call(handler, "POST", path, { place: 1, wish: "hide" })).status, 400);
  for (const place of ["1", "x"]) {
    const message = `Cannot remove the pin of message ${place}: session ${
      session.split("/").at(-1)
    } has none there.`;
    assertEquals(await refused(handler, "DELETE", `${path}/${place}`), error(404, "not_found", message));
  }
  for (
    const [route, name] of [["calls", "limit"], ["calls", "after"], ["prompt", "limit"], ["prompt", "from"]]
  ) {
    assertEquals((await call(handler, "GET", `${session}/${route}?${name}=x`)).status, 400);
  }
  // Reported exactly as accepted.
  const accepts = async (handler: HttpAgent, session: string) => {
    const { blocks } = await get<PromptReport>(handler, `${session}/prompt`);
    for (const { place, mayPin } of blocks) {
      const statuses = await Promise.all(
        (["retain", "evict"] as const).map(async (wish) =>
          [wish, (await call(handler, "POST", `${session}/pins`, { place, wish })).status] as const
        ),
      );
      assertEquals(statuses.flatMap(([wish, status]) => status === 200 ? [wish] : []), mayPin);
    }
    return [...new Set(blocks.map(({ mayPin }) => mayPin.join()))].sort();
  };
  assertEquals(await accepts(handler, session), ["", "retain", "retain,evict"]);
  const classic = agent(echoing().model, { policy: "classic" });
  const other = await newSession(classic);
  await play(classic, other, "a");
  assertEquals(await accepts(classic, other), [""]);
  const unable = "the policy classic has no pins. Use the policy planner";
  assertEquals(
    await refused(classic, "POST", `${other}/pins`, { place: 3, wish: "retain" }),
    error(501, "not_supported", `Cannot pin message 3: ${unable}.`),
  );
  assertEquals((await standing(classic, other)).length, 5);
});

Deno.test("promptRoutes() set a pin once for an Idempotency-Key", async () => {
  const handler = agent(echoing().model);
  const session = await newSession(handler);
  await play(handler, session, "a");
  const send = async (wish: string) => {
    const headers = { "content-type": "application/json", "idempotency-key": "k" };
    const body = JSON.stringify({ place: 3, wish });
    const response = await handler.fetch(
      new Request(`http://localhost${session}/pins`, { method: "POST", headers, body }),
    );
    return [response.status, await response.json()];
  };
  const first = await send("evict");
  assertEquals((await call(handler, "DELETE", `${session}/pins/3`)).status, 204);
  assertEquals([await send("evict"), await pinsOf(handler, session)], [first, []]);
});

Deno.test("promptRoutes() return warnings, the newest first", async () => {
  const handler = agent(echoing().model, { windowTokens: 6_000, mechanisms: { truncate: false } });
  const session = await newSession(handler);
  await play(handler, session, "abc");
  const { warnings } = await get<Overview>(handler, "/tare/v1/overview");
  assert(warnings.length > 0 && warnings.every((warning) => warning.session === session.split("/").at(-1)));
});

Deno.test("promptRoutes() estimate the cost of results, and return which may be evicted", async () => {
  const { model } = echoing();
  const handler = agent(model, { price: () => ({ input: 10, output: 20 }) });
  const session = await newSession(handler);
  await play(handler, session, "ab");
  const { all, turns, tools, subjects, results, carried } = await get<SessionSpend>(
    handler,
    `${session}/spend`,
  );
  const calls = await callsOf(handler, session);
  assertAlmostEquals(all.usd, calls.reduce((sum, { usd }) => sum + usd!, 0));
  assertEquals(turns.map(({ turn, calls }) => [turn, calls]).sort(), [[1, 2], [2, 2]]);
  assertEquals(tools.map(({ key, results }) => [key, results]), [["echo", 2]]);
  assertEquals(subjects.map(({ key }) => key.slice(0, 6)).sort(), ["1 word", "3 word"]);
  assertEquals(results.map(({ place, state }) => [place, state]).sort(), [[3, "replaced"], [7, "visible"]]);
  assertEquals(carried.map(({ place, pin }) => [place, pin]), [[7, null]]);
  const [newest] = carried;
  assertEquals(newest!.calls, 1);
  // It was new, and the provider reports no cache usage.
  assertEquals([newest!.tokens, newest!.costUnits], [5_005, 5_005]);
  await call(handler, "POST", `${session}/pins`, { place: 7, wish: "evict" });
  const [waiting] = (await get<SessionSpend>(handler, `${session}/spend`)).carried;
  assertEquals(waiting?.pin?.state, "waiting");
});
