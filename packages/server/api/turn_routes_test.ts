import { assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { memoryStore } from "@tare/session/sqlite";
import type { HttpAgent } from "@tare/server";
import {
  agent,
  call,
  error,
  events,
  newSession,
  refused,
  request,
  scriptedModel,
  silentModel,
  turn,
} from "../fixture_test.ts";
import { checker } from "../http/schema.ts";
import { failingStore, FULL } from "../sessions/store_fixture_test.ts";
import { START_TURN } from "./turn_routes.ts";

Deno.test("turnRoutes() refuse a turn if all slots are taken for long, and start the next one when a slot is free", async () => {
  const silent = silentModel();
  const waiting = Promise.withResolvers<() => void>();
  const handler = agent(silent.model, {
    maxRunningTurns: 1,
    after(ms, work) {
      if (ms === 30_000) waiting.resolve(work);
      return () => {};
    },
    model: (name) => name === "quick" ? scriptedModel([{ content: "a" }]) : silent.model,
  });
  const [one, two] = [await newSession(handler), await newSession(handler, { model: "quick" })];
  const running = turn(handler, one, "q");
  await silent.requested;
  const asking = call(handler, "POST", `${two}/turns`, { input: "q" });
  (await waiting.promise)();
  const answer = await asking;
  assertEquals([answer.status, answer.headers.get("retry-after")], [429, "5"]);
  assertEquals(
    { status: answer.status, body: answer.body },
    error(
      429,
      "too_many_turns",
      "Cannot start a turn: the limit of running turns (1) is reached. Retry when one has ended.",
    ),
  );
  await call(handler, "POST", `${one}/cancel`);
  await running;
  for (let times = 0; times < 2; times++) {
    assertEquals((await turn(handler, two, "q")).at(-1)!.event.type, "turn_end");
  }
});

Deno.test("turnRoutes() free the slot if a turn can't be started", async () => {
  let isBroken = true;
  const model = scriptedModel([{ content: "a" }]);
  const handler = agent(model, {
    maxRunningTurns: 1,
    model() {
      if (isBroken) throw new Error("no such model");
      return model;
    },
  });
  const session = await newSession(handler);
  assertEquals((await call(handler, "POST", `${session}/turns`, { input: "q" })).status, 500);
  isBroken = false;
  assertEquals((await turn(handler, session, "q")).at(-1)!.event.type, "turn_end");
});

Deno.test("turnRoutes() end a turn's stream with the turn, and send heartbeats while nothing happens", async () => {
  const { model, requested } = silentModel();
  const beats: (() => void)[] = [];
  const handler = agent(model, {
    heartbeat: { intervalMs: 1, after: (_ms, beat) => (beats.push(beat), () => {}) },
  });
  const session = await newSession(handler);
  const response = await handler.fetch(request("POST", `${session}/turns`, { input: "q" }));
  const chunks = response.body!.getReader();
  const read = async () => new TextDecoder().decode((await chunks.read()).value);
  assertEquals([await read(), await read()].map((text) => JSON.parse(text.split("data: ")[1]!).type), [
    "turn_start",
    "step_start",
  ]);
  await requested;
  const chunk = read();
  await Promise.resolve();
  beats.at(-1)!();
  assertEquals(await chunk, ": heartbeat\n\n");
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(JSON.parse((await read()).split("data: ")[1]!).type, "turn_end");
  assertEquals((await chunks.read()).done, true);
});

Deno.test("turnRoutes() stream the events of a running session to its readers, and release them all", async () => {
  const { model, requested } = silentModel();
  const handler = agent(model);
  const session = await newSession(handler);
  const running = turn(handler, session, "q");
  await requested;
  const watched = events(await handler.fetch(request("GET", `${session}/events`)));
  const left = (await handler.fetch(request("GET", `${session}/events`))).body!.getReader();
  await left.read();
  await left.cancel();
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(await watched, await running);
});

const echoing = {
  tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: '{"text":"hi"}' } }],
} as const;

function ends(seen: Awaited<ReturnType<typeof turn>>): unknown[] {
  return seen.flatMap(({ event }) => event.type === "turn_end" ? [[event.reason, event.message]] : []);
}

async function userTexts(handler: HttpAgent, session: string): Promise<unknown[]> {
  const { body } = await call(handler, "GET", session);
  return (body as { messages: { role: string; content: string }[] }).messages.map(({ role, content }) =>
    `${role}: ${content}`
  );
}

Deno.test("turnRoutes() end turns over the budget of turn or session, before the first call too", async () => {
  const handler = agent(scriptedModel(Array(9).fill(echoing)));
  const session = await newSession(handler, { budget: { maxSteps: 3 } });
  const play = async (budget?: unknown) =>
    await events(
      await handler.fetch(request("POST", `${session}/turns`, { input: "q", ...(budget ? { budget } : {}) })),
    );
  const turnEnd = (name: string, limit: number, spent = limit) => [[
    "budget",
    `The ${name}'s budget is exhausted: maxSteps is ${limit}, used: ${spent}.`,
  ]];
  assertEquals(ends(await play({ maxSteps: 2 })), turnEnd("turn", 2));
  assertEquals(ends(await play({ maxSteps: 2 })), turnEnd("session", 3));
  const last = await play();
  assertEquals([last.map(({ event }) => event.type), ends(last)], [
    ["turn_start", "turn_end"],
    turnEnd("session", 3),
  ]);
  assertEquals((await userTexts(handler, session)).at(-1), "user: q");
});

Deno.test(
  "turnRoutes() count dollars by the model's price, enforce a budget in them, and refuse one without a price",
  async () => {
    const price = (model: string) => model === "priced" ? { input: 1_000, output: 10_000 } : undefined;
    const handler = agent(scriptedModel(Array(9).fill(echoing)), { price });
    const budget = { maxUsd: 0.05 };
    const priced = await newSession(handler, { model: "priced", budget });
    const visible = await events(await handler.fetch(request("POST", `${priced}/turns`, { input: "q" })));
    const cost = { costUnits: 10, usd: 0.03 };
    assertEquals(visible.flatMap(({ event }) => event.type === "step_end" ? [event.cost] : []), [cost, cost]);
    const end = visible.at(-1)?.event;
    assertEquals(
      end?.type === "turn_end" && [end.reason, end.message, end.ledger.usd, end.ledger.costUnits],
      [
        "budget",
        "The session's budget is exhausted: maxUsd is 0.05, used: 0.06.",
        0.06,
        20,
      ],
    );
    const unpriced = await newSession(handler, { model: "other" });
    const message =
      'Cannot enforce the budget maxUsd: the price of model "other" is unknown. Start the server with ' +
      "TARE_PRICE=input=3,output=15 (US dollars for a million tokens) or a price in the file of TARE_PROFILE, or use " +
      "maxTokens or maxCostUnits.";
    const refusal = error(400, "invalid_request", message);
    assertEquals(await refused(handler, "POST", "/tare/v1/sessions", { model: "other", budget }), refusal);
    assertEquals(await refused(handler, "POST", `${unpriced}/turns`, { input: "q", budget }), refusal);
    const free = await events(
      await handler.fetch(request("POST", `${unpriced}/turns`, { input: "q", budget: { maxSteps: 1 } })),
    );
    const lastEvent = free.at(-1)?.event;
    assertEquals(lastEvent?.type === "turn_end" && ["usd" in lastEvent.ledger, lastEvent.ledger.costUnits], [
      false,
      10,
    ]);
  },
);

Deno.test("turnRoutes() refuse to continue if there is nothing to continue", async () => {
  const handler = agent(scriptedModel([echoing, { content: "a" }]));
  const session = await newSession(handler);
  const nothing = error(
    409,
    "nothing_to_continue",
    `Cannot continue session ${
      session.split("/").at(-1)
    }: the last message is the model's answer. Send an input.`,
  );
  assertEquals(await refused(handler, "POST", `${session}/turns`, { continue: true }), nothing);
  const post = async (body: unknown) =>
    ends(await events(await handler.fetch(request("POST", `${session}/turns`, body))));
  assertEquals(await post({ input: "q", budget: { maxSteps: 1 } }), [[
    "budget",
    "The turn's budget is exhausted: maxSteps is 1, used: 1.",
  ]]);
  assertEquals(await post({ continue: true }), [["completed", undefined]]);
  assertEquals(await refused(handler, "POST", `${session}/turns`, { continue: true }), nothing);
  assertEquals(await userTexts(handler, session), [
    "system: Be brief.",
    "user: q",
    "assistant: ",
    "tool: hi",
    "assistant: a",
  ]);
});

Deno.test("turnRoutes() steer a running turn, and keep inputs that came too late for it", async () => {
  const { model, requested } = silentModel();
  let calls = 0;
  const handler = agent(scriptedModel([]), {
    model: () => (options) => (calls++ === 0 ? model : scriptedModel([{ content: "a" }]))(options),
  });
  const session = await newSession(handler);
  const running = turn(handler, session, "q");
  await requested;
  const steered = await call(handler, "POST", `${session}/turns`, { input: "also", steer: true });
  const { body } = steered as { body: { steered: boolean; session: { status: string } } };
  assertEquals([steered.status, body.steered, body.session.status], [202, true, "running"]);
  await call(handler, "POST", `${session}/cancel`);
  assertEquals((await running).slice(-2).map(({ event }) => event.type), ["user_message", "turn_end"]);
  assertEquals(await userTexts(handler, session), ["system: Be brief.", "user: q", "user: also"]);
  const next = await handler.fetch(request("POST", `${session}/turns`, { input: "and this", steer: true }));
  assertEquals(ends(await events(next)), [["completed", undefined]]);
  assertEquals((await userTexts(handler, session)).slice(2), [
    "user: also",
    "user: and this",
    "assistant: a",
  ]);
});

Deno.test("turnRoutes() return the same events to all readers, at any time, and after a restart", async () => {
  const store = memoryStore();
  const { model, requested } = silentModel();
  let calls = 0;
  const handler = agent(scriptedModel([]), {
    store,
    model: () => (options) => (calls++ === 0 ? scriptedModel([echoing]) : model)(options),
  });
  const session = await newSession(handler);
  const watch = async (from: HttpAgent, headers = {}) =>
    await events(await from.fetch(new Request(`http://localhost${session}/events`, { headers })));
  const running = events(await handler.fetch(request("POST", `${session}/turns`, { input: "q" })));
  const first = watch(handler);
  await requested;
  const second = watch(handler);
  await call(handler, "POST", `${session}/cancel`);
  const seen = await running;
  assertEquals([await first, await second], [seen, seen]);
  const restarted = agent(scriptedModel([]), { store });
  assertEquals(await watch(restarted, { "last-event-id": "3" }), seen.slice(3));
});

Deno.test("turnRoutes() report a failed store by status before the turn, and in the stream once it runs", async () => {
  let fails = (_call: number) => false;
  const store = failingStore((call) => fails(call));
  const handler = agent(scriptedModel([{ content: "unheard" }, { content: "a" }]), { store });
  const session = await newSession(handler);
  fails = () => true;
  assertEquals(
    await refused(handler, "POST", `${session}/turns`, { input: "q" }),
    error(507, "store_failed", FULL),
  );
  const { calls } = store;
  fails = (call) => call > calls + 1;
  const response = await handler.fetch(request("POST", `${session}/turns`, { input: "q" }));
  const streamed = await Array.fromAsync(response.body!.pipeThrough(new ServerSentEventParseStream()));
  assertEquals(streamed.map(({ id, event, data }) => [id, event, JSON.parse(data!)]), [
    ["1", undefined, { type: "turn_start", input: "q" }],
    [undefined, "error", { error: { status: 507, code: "store_failed", message: FULL } }],
  ]);
  assertEquals(await userTexts(handler, session), ["system: Be brief.", "user: q"]);
  const errors: unknown[] = [];
  const restarted = agent(scriptedModel([]), { store, onError: (error) => errors.push(error) });
  for (const read of [handler, restarted]) {
    assertEquals(ends(await events(await read.fetch(request("GET", `${session}/events`)))).at(0), [
      "interrupted",
      "The server stopped during this turn. The turn can be continued.",
    ]);
    assertEquals(await userTexts(read, session), ["system: Be brief.", "user: q"]);
  }
  assertEquals(errors.map(String), [`StoreError: ${FULL}`]);
  fails = () => false;
  assertEquals(ends(await turn(handler, session, "r")), [["completed", undefined]]);
  assertEquals(await userTexts(handler, session), [
    "system: Be brief.",
    "user: q",
    "user: r",
    "assistant: a",
  ]);
});

Deno.test("START_TURN accepts text or parts and names the faults of others", () => {
  const faults = checker(START_TURN, "the body");
  for (
    const input of ["hello", [{ type: "text", text: "" }], [{ type: "image_url", image_url: { url: "x" } }], [
      {
        type: "file",
        file: { file_id: "f" },
      },
    ]]
  ) assertEquals(faults({ input }), undefined);
  assertEquals(
    faults({}),
    "the body must have 'input' or 'continue'",
  );
  assertEquals(faults({ continue: true, budget: { maxSteps: 3 } }), undefined);
  assertEquals(
    faults({ continue: true, input: "a" }),
    "the body must not have 'input' and 'continue' together",
  );
  assertEquals(faults({ input: "a", budget: { maxSteps: 0 } }), "budget.maxSteps must be >= 1");
  assertEquals(faults({ input: "" }), "input must not be empty");
  assertEquals(faults({ input: [] }), "input must not be empty");
  assertEquals(faults({ input: 3 }), "input must be string or array");
  assertEquals(faults({ input: [{ type: "text" }] }), "input.0 must have required property 'text'");
  assertEquals(
    faults({ input: "a", more: 1 }),
    "the body must not have 'more' (allowed: input, continue, steer, background, unattended, budget, evictNow, effort)",
  );
});

Deno.test("turnRoutes() end a stream with its turn, though the next one begins before a slow reader gets there", async () => {
  const handler = agent(scriptedModel([{ content: "a" }, { content: "b" }]));
  const session = await newSession(handler);
  const start = async (input: string) => await handler.fetch(request("POST", `${session}/turns`, { input }));
  const slow = await start("1");
  await call(handler, "POST", `${session}/cancel`);
  const [second, first] = [await events(await start("2")), await events(slow)];
  assertEquals([first[0]?.id, first.at(-1)?.event.type], [1, "turn_end"]);
  assertEquals(first.length + 1, second[0]?.id);
});

Deno.test("turnRoutes() hide internal errors in a stream, and pass them to onError", async () => {
  const reported: unknown[] = [];
  const bug = new Error("secret");
  const store = memoryStore();
  const before = agent(scriptedModel([{ content: "a" }]), { store });
  const session = await newSession(before);
  await turn(before, session, "q");
  const handler = agent(scriptedModel([]), {
    store: {
      ...store,
      readEvents: (id, options) => options?.types ? store.readEvents(id, options) : Promise.reject(bug),
    },
    onError: (error) => reported.push(error),
  });
  const response = await handler.fetch(request("GET", `${session}/events`));
  assertEquals(
    await response.text(),
    'event: error\ndata: {"error":{"status":500,"code":"internal_error","message":"Internal server error: the ' +
      "server's log has the details.\"}}\n\n",
  );
  assertEquals(reported, [bug]);
});
