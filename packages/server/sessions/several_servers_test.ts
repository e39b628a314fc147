import { assertEquals, assertStringIncludes } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { type Store, StoreError } from "@tare/session";
import { contentText, type Model, type ModelRequest } from "@tare/messages";
import type { HttpAgent } from "@tare/server";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { ALLOW_EVERYTHING } from "../approvals/rules.ts";
import {
  agent,
  call,
  events,
  newSession,
  request,
  type SeenEvent,
  steppedModel,
  type TestOptions,
} from "../fixture_test.ts";
import { FULL } from "./store_fixture_test.ts";

interface Server {
  readonly handler: HttpAgent;
  readonly opening: ReturnType<ReturnType<typeof sharedMemory>["open"]>;
  readonly stepped: ReturnType<typeof steppedModel>;
  readonly errors: unknown[];
}

function servers(count: number, options: TestOptions = {}, open: (store: Store) => Store = (store) => store) {
  const memory = sharedMemory();
  const all = Array.from({ length: count }, (): Server => {
    const stepped = steppedModel();
    const opening = memory.open();
    const errors: unknown[] = [];
    const handler = agent(stepped.model, {
      store: open(opening.store),
      onError: (error) => errors.push(error),
      clock: { now: () => 0, after: () => () => {} },
      approvals: {},
      after: () => () => {},
      ...options,
    });
    return { handler, opening, stepped, errors };
  });
  return { memory, all };
}

const start = async ({ handler }: Server, path: string, body: unknown) =>
  await handler.fetch(request("POST", `${path}/turns`, body));
const follow = async ({ handler }: Server, path: string) =>
  await handler.fetch(request("GET", `${path}/events`));
const brief = (seen: readonly SeenEvent[]) =>
  seen.map(({ id, event }) =>
    [id, event.type, ...(event.type === "turn_end" ? [event.reason] : [])].join(" ")
  );
const goneOn = [
  ...["1 turn_start", "2 turn_resumed", "3 step_start", "4 text_delta"],
  ...["5 assistant_message", "6 step_end", "7 turn_end completed"],
];
const userTexts = (messages: ModelRequest["messages"]) =>
  messages.map(({ role, content }) => `${role[0]}: ${contentText(content)}`);

Deno.test("several servers: a turn that runs on one server is followed, steered and cancelled on another", async () => {
  const { all: [a, b] } = servers(2);
  const path = await newSession(a!.handler);
  const onA = await start(a!, path, { input: "q" });
  await a!.stepped.requested();
  const onB = await follow(b!, path);
  const running = await call(b!.handler, "GET", path);
  assertEquals((running.body as { status: string }).status, "running");
  assertEquals((await start(b!, path, { input: "no" })).status, 409);
  assertEquals((await call(b!.handler, "POST", `${path}/turns`, { input: "more", steer: true })).status, 202);
  await a!.stepped.reply("one");
  await a!.stepped.requested();
  assertEquals(userTexts(a!.stepped.requests[1]!.messages), ["s: Be brief.", "u: q", "a: one", "u: more"]);
  const cancelled = await call(b!.handler, "POST", `${path}/cancel`);
  assertEquals((cancelled.body as { cancelled: boolean }).cancelled, true);
  const seen = await events(onA);
  assertEquals(await events(onB), seen);
  assertEquals(brief(seen).at(-1), `${seen.length} turn_end cancelled`);
  const next = await start(b!, path, { input: "again" });
  await b!.stepped.reply("two");
  assertEquals(brief(await events(next)).at(-1)?.split(" ").slice(1), ["turn_end", "completed"]);
  assertEquals([a!.errors, b!.errors], [[], []]);
});

Deno.test("several servers: another server continues a dead server's turn, with the same bytes", async () => {
  const { memory, all: [a, b] } = servers(2);
  const path = await newSession(a!.handler);
  await start(a!, path, { input: "q" });
  await a!.stepped.requested();
  const onB = await follow(b!, path);
  a!.opening.kill();
  memory.pass(10_000);
  await b!.stepped.reply("one");
  assertEquals(brief(await events(onB)), goneOn);
  assertEquals(
    JSON.stringify([b!.stepped.requests[0]!.messages, b!.stepped.requests[0]!.tools]),
    JSON.stringify([a!.stepped.requests[0]!.messages, a!.stepped.requests[0]!.tools]),
  );
  assertEquals(b!.errors, []);
});

Deno.test("several servers: a dead server's turn can be read if the store is full, and continues once it has room", async () => {
  let isFull = false;
  const { memory, all: [a, b] } = servers(2, {}, (store) => ({
    ...store,
    async commit(records) {
      if (isFull) throw new StoreError("full", FULL);
      await store.commit(records);
    },
  }));
  const path = await newSession(a!.handler);
  await start(a!, path, { input: "q" });
  await a!.stepped.requested();
  isFull = true;
  a!.opening.kill();
  memory.pass(10_000);
  for (let reads = 0; reads < 2; reads++) {
    const read = await Array.fromAsync(
      (await follow(b!, path)).body!.pipeThrough(new ServerSentEventParseStream()),
    );
    assertEquals(read.map(({ id, event, data }) => [id, event, JSON.parse(data!)]), [
      ["1", undefined, { type: "turn_start", input: "q" }],
      [undefined, "error", { error: { status: 507, code: "store_failed", message: FULL } }],
    ]);
    const { status, body } = await call(b!.handler, "GET", path);
    assertEquals([status, (body as { status: string }).status], [200, "running"]);
  }
  assertEquals((await start(b!, path, { input: "r" })).status, 507);
  assertEquals(new Set(b!.errors.map(String)), new Set([`StoreError: ${FULL}`]));
  isFull = false;
  const onB = await follow(b!, path);
  await b!.stepped.reply("one");
  assertEquals(brief(await events(onB)), goneOn);
});

Deno.test("several servers: a dead server's gateway session is released, and delays no other session", async () => {
  const { memory, all: [a, b] } = servers(2);
  const { store } = a!.opening;
  await store.commit([{ type: "session", kind: "gateway", id: "passing", createdAtMs: 0, settings: {} }]);
  assertEquals(await store.shared!.hold("passing") !== undefined, true);
  const path = await newSession(a!.handler);
  await start(a!, path, { input: "q" });
  await a!.stepped.requested();
  a!.opening.kill();
  memory.pass(10_000);
  await b!.handler.attend();
  assertEquals([await b!.opening.store.shared!.abandonedSessions(), b!.errors], [[], []]);
  const ended = await follow(b!, path);
  await b!.stepped.reply("one");
  assertEquals(brief(await events(ended)), goneOn);
});

Deno.test("several servers: a server that wakes up after its lease writes and reports nothing more of its turn", async () => {
  const { memory, all: [a, b] } = servers(2);
  const path = await newSession(a!.handler);
  const onA = await start(a!, path, { input: "q" });
  await a!.stepped.requested();
  a!.opening.pause();
  await a!.stepped.reply("late");
  memory.pass(10_000);
  const onB = events(await follow(b!, path));
  await b!.stepped.reply("one");
  assertEquals(brief(await onB), goneOn);
  a!.opening.wake();
  assertEquals(brief(await events(onA)), goneOn);
  const again = await start(a!, path, { input: "again" });
  await a!.stepped.reply("two");
  assertEquals(brief(await events(again)).at(-1)?.split(" ").slice(1), ["turn_end", "completed"]);
  assertEquals(userTexts(a!.stepped.requests[1]!.messages), ["s: Be brief.", "u: q", "a: one", "u: again"]);
});

Deno.test("several servers: a session is deleted on any server, even while a turn runs on another", async () => {
  const { all: [a, b] } = servers(2);
  const path = await newSession(a!.handler);
  const seen = events(await start(a!, path, { input: "q" }));
  await a!.stepped.requested();
  assertEquals((await call(b!.handler, "DELETE", path)).status, 204);
  assertEquals(brief(await seen).at(-1), "3 turn_end cancelled");
  assertEquals((await start(a!, path, { input: "again" })).status, 404);
  assertEquals((await call(a!.handler, "GET", path)).status, 404);
  assertEquals([a!.errors, b!.errors], [[], []]);
});

Deno.test("several servers: a turn starts without reading the store first, and with all writes of other servers", async () => {
  const memory = sharedMemory();
  let looks = 0;
  const [a, b] = [0, 1].map(() => {
    const { store } = memory.open();
    const shared = { ...store.shared!, look: (id: string) => (looks++, store.shared!.inspect(id)) };
    const stepped = steppedModel();
    return { stepped, handler: agent(stepped.model, { store: { ...store, shared } }) };
  });
  const path = await newSession(a!.handler);
  const turns = async ({ handler, stepped }: NonNullable<typeof a>, input: string) => {
    const turn = await handler.fetch(request("POST", `${path}/turns`, { input }));
    await stepped.reply(`to ${input}`);
    await events(turn);
  };
  await turns(a!, "one");
  const before = looks;
  await turns(a!, "two");
  assertEquals(looks, before);
  await turns(b!, "three");
  await turns(a!, "four");
  assertEquals(userTexts(a!.stepped.requests.at(-1)!.messages), [
    "s: Be brief.",
    ...["one", "two", "three"].flatMap((input) => [`u: ${input}`, `a: to ${input}`]),
    "u: four",
  ]);
});

Deno.test("several servers: any server deletes idle sessions that no other one uses", async () => {
  const { all: [a, b] } = servers(2, { now: () => 10 });
  const idle = await newSession(a!.handler);
  const used = await newSession(a!.handler);
  await start(a!, used, { input: "q" });
  await a!.stepped.requested();
  assertEquals(await b!.handler.expire(-1e15), 1);
  assertEquals((await call(a!.handler, "GET", idle)).status, 404);
  assertEquals((await call(b!.handler, "GET", used)).status, 200);
  await a!.handler.close();
});

for (const when of ["before its model is asked", "while its model answers"]) {
  Deno.test(`several servers: a server that slept past its lease ${when} stops before it knows of it`, async () => {
    const isEarly = when.startsWith("before");
    const ran: string[] = [];
    const model: Model = async function* () {
      ran.push("requested");
      isSure = false;
      const call = { id: "1", type: "function", function: { name: "act", arguments: "{}" } } as const;
      yield {
        type: "completed",
        message: { role: "assistant", content: null, tool_calls: [call] },
        finishReason: "tool_calls",
        usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
      };
    };
    const memory = sharedMemory();
    const opening = memory.open();
    const { shared, ...store } = opening.store;
    let isSure = true;
    const commit: typeof store.commit = async (records) => {
      await store.commit(records);
      if (isEarly && records.some(({ type }) => type === "events")) isSure = false;
    };
    const hold: typeof shared.hold = async (id) => {
      const hold = await shared.hold(id);
      return hold && { ...hold, isSure: () => isSure && hold.isSure() };
    };
    const handler = agent(model, {
      store: { ...store, commit, shared: { ...shared, hold } },
      tools: [{
        definition: { type: "function", function: { name: "act", parameters: { type: "object" } } },
        run() {
          ran.push("act");
          return "acted";
        },
      }],
    });
    const path = await newSession(handler);
    const received = await events(await handler.fetch(request("POST", `${path}/turns`, { input: "q" })));
    assertEquals(ran, isEarly ? [] : ["requested"]);
    assertEquals(brief(received).at(-1), `${received.length} turn_end interrupted`);
    assertEquals(brief(received).filter((line) => line.endsWith("turn_resumed")).length, 3);
  });
}

for (const when of ["at its next step", "in its middle"]) {
  Deno.test(`close() leaves a turn ${when}, and another server continues it`, async () => {
    const timers: (() => void)[] = [];
    const ran: string[] = [];
    const acting = Promise.withResolvers<void>();
    const acted = Promise.withResolvers<string>();
    const { all: [a, b] } = servers(2, {
      approvals: { rules: ALLOW_EVERYTHING },
      after(_ms, work) {
        timers.push(work);
        return () => {};
      },
      tools: [{
        definition: { type: "function", function: { name: "act", parameters: { type: "object" } } },
        run(_args, { signal }) {
          ran.push("act");
          signal.addEventListener("abort", () => acted.resolve("too late"));
          acting.resolve();
          return acted.promise;
        },
      }],
    });
    const path = await newSession(a!.handler);
    const onA = await start(a!, path, { input: "q" });
    await a!.stepped.call("act");
    await acting.promise;
    const onB = events(await follow(b!, path));
    const closed = a!.handler.close({ leaveWithinMs: 20_000 });
    const refused = await start(a!, path, { input: "more" });
    assertEquals([refused.status, (await refused.json()).error.code], [409, "turn_running"]);
    if (when === "in its middle") timers.shift()!();
    else acted.resolve("done");
    await closed;
    assertStringIncludes(await onA.text(), '"code":"server_ending"');
    await a!.opening.store.close();
    await b!.stepped.reply("one");
    const seen = await onB;
    const outline = brief(seen).map((line) => line.split(" ").slice(1).join(" "));
    const result = seen.find(({ event }) => event.type === "tool_result")?.event;
    const isLeft = when === "at its next step";
    assertEquals(outline.filter((type) => type.startsWith("turn")), [
      ...["turn_start", "turn_resumed", "turn_end completed"],
    ]);
    assertEquals([ran, a!.errors, b!.errors], [["act"], [], []]);
    assertEquals(
      result?.type === "tool_result" && result.content,
      isLeft
        ? "done"
        : "Cannot report the result: interrupted, outcome unknown. It may have taken effect: check before calling it again.",
    );
    assertEquals(b!.stepped.requests[0]!.messages.map(({ role }) => role[0]).join(""), "suat");
  });
}

Deno.test("close() releases sessions after their turns have ended, and the next server continues immediately", async () => {
  const { all: [a, b] } = servers(2);
  const path = await newSession(a!.handler);
  const onA = events(await start(a!, path, { input: "q" }));
  await a!.stepped.requested();
  const onB = events(await follow(b!, path));
  await a!.handler.close();
  assertEquals(await b!.opening.store.shared.inspect(path.split("/").at(-1)!), {
    fence: 1,
    holder: "none",
    lastEvent: 3,
  });
  assertEquals(brief(await onA), ["1 turn_start", "2 step_start", "3 turn_end interrupted"]);
  assertEquals(brief(await onB), brief(await onA));
  const next = await start(b!, path, { continue: true });
  await b!.stepped.reply("one");
  assertEquals(brief(await events(next)).at(-1)?.split(" ").slice(1), ["turn_end", "completed"]);
});

Deno.test("several servers: a message is pinned on another server than the turn's", async () => {
  const { all: [a, b] } = servers(2, { policy: "planner" });
  const path = await newSession(a!.handler);
  const first = events(await start(a!, path, { input: "q" }));
  await a!.stepped.reply("one");
  await first;
  const second = events(await start(a!, path, { input: "more" }));
  await a!.stepped.requested();
  const pinned = await call(b!.handler, "POST", `${path}/pins`, { place: 1, wish: "retain", by: "user" });
  assertEquals(pinned.status, 200, JSON.stringify(pinned.body));
  const places = async ({ handler }: Server) =>
    ((await call(handler, "GET", `${path}/pins`)).body as { pins: { place: number }[] }).pins
      .map(({ place }) => place);
  assertEquals([await places(a!), await places(b!)], [[1], [1]]);
  await a!.stepped.reply("two");
  await second;
  assertEquals([await places(a!), await places(b!)], [[1], [1]]);
  assertEquals([a!.errors, b!.errors], [[], []]);
});

for (const isLost of ["answer", "request"]) {
  Deno.test(`several servers: a server that released a session, and lost the ${isLost}, reports later events`, async () => {
    const { memory, all: [b] } = servers(1);
    const { store: { shared, ...store } } = memory.open();
    let isCut = false;
    const release: typeof shared.release = async (id) => {
      if (!isCut || isLost === "answer") await shared.release(id);
      if (!isCut) return;
      isCut = false;
      throw new StoreError("io", "The connection is gone");
    };
    const stepped = steppedModel();
    const errors: unknown[] = [];
    const a = agent(stepped.model, {
      store: { ...store, shared: { ...shared, release } },
      onError: (error) => errors.push(error),
      clock: { now: () => 0, after: () => () => {} },
    });
    const path = await newSession(a);
    const first = events(await a.fetch(request("POST", `${path}/turns`, { input: "q" })));
    isCut = true;
    await stepped.reply("one");
    await first;
    const second = events(await start(b!, path, { input: "more" }));
    await b!.stepped.reply("two");
    await second;
    const bodies = await Promise.all([a, b!.handler].map((handler) => call(handler, "GET", path)));
    assertEquals(bodies[0]!.body, bodies[1]!.body);
    assertEquals((bodies[0]!.body as { turns: number }).turns, 2);
    assertEquals([errors.length, b!.errors], [1, []]);
    await a.close();
  });
}

function askingServer(memory: ReturnType<typeof sharedMemory>) {
  const { store: { shared, ...store } } = memory.open();
  const asks: string[] = [];
  const stepped = steppedModel();
  const handler = agent(stepped.model, {
    store: {
      ...store,
      readEvents(id, options = {}) {
        asks.push(`events after ${options.after ?? 0}`);
        return store.readEvents(id, options);
      },
      readState: (id, name) => (asks.push(`state ${name}`), store.readState(id, name)),
      shared: {
        ...shared,
        inspect: (id) => (asks.push("look"), shared.inspect(id)),
        watch: (id, changed) => (asks.push("watch"), shared.watch(id, changed)),
      },
    },
  });
  return { handler, stepped, asks: () => asks.splice(0) };
}

Deno.test(
  "several servers: a follower reads the store only at the start, and for events too long for a notification",
  async () => {
    const { memory, all: [a] } = servers(1);
    const b = askingServer(memory);
    const path = await newSession(a!.handler);
    await call(b.handler, "GET", path);
    const turn = await start(a!, path, { input: "q" });
    await a!.stepped.requested();
    b.asks();
    const onB = events(await b.handler.fetch(request("GET", `${path}/events`)));
    await a!.stepped.reply("short");
    const seen = await events(turn);
    assertEquals(brief(seen).at(-1), "6 turn_end completed");
    assertEquals(await onB, seen);
    assertEquals(b.asks(), ["look", "events after 0", "watch", "state queued"]);

    const longer = await start(a!, path, { input: "q" });
    await a!.stepped.requested();
    const after = events(await b.handler.fetch(request("GET", `${path}/events?after=6`)));
    await a!.stepped.reply("long ".repeat(1_000));
    const all = await events(longer);
    assertEquals(await after, all);
    const long = ["events after 7", "events after 9"];
    assertEquals(b.asks(), ["look", "events after 6", "watch", ...long, "state queued"]);
    const body = async ({ handler }: { readonly handler: HttpAgent }) =>
      (await call(handler, "GET", path)).body;
    assertEquals(await body(b), await body(a!));
    assertEquals(b.asks().slice(0, 2), ["look", "events after 0"]);
    assertEquals([await body(b), b.asks()], [await body(a!), ["look"]]);
  },
);

Deno.test("several servers: a session that others continued is read from the end of memory, with the same requests", async () => {
  const { memory, all: [a] } = servers(1, { policy: "planner" });
  const b = askingServer(memory);
  const path = await newSession(a!.handler);
  const play = async (server: Pick<Server, "handler" | "stepped">, input: string) => {
    const turn = await server.handler.fetch(request("POST", `${path}/turns`, { input }));
    await server.stepped.reply(`to ${input}`);
    return (await events(turn)).at(-1)!.id;
  };
  await play(a!, "one");
  const second = await play(b, "two");
  b.asks();
  const third = await play(a!, "three");
  assertEquals(b.asks(), []);
  const readBefore = (last: number, asks: readonly string[]) =>
    asks.flatMap((ask) => /^events after (\d+)$/.exec(ask)?.[1] ?? []).map(Number).filter((at) => at < last);
  await play(b, "four");
  assertEquals(readBefore(third, b.asks()), [second]);
  const fifth = await play(a!, "five");
  const fresh = askingServer(memory);
  await play(fresh, "six");
  assertEquals(readBefore(fifth, fresh.asks()), [0]);
  await play(b, "seven");
  const [known, all] = [b.stepped.requests.at(-1)!, fresh.stepped.requests.at(-1)!];
  assertEquals(JSON.stringify(known.messages.slice(0, all.messages.length)), JSON.stringify(all.messages));
  assertEquals(userTexts(known.messages).slice(-3), ["u: six", "a: to six", "u: seven"]);
});

Deno.test("close() lets a turn that no process can continue end, within the time limit", async () => {
  const acted = Promise.withResolvers<string>();
  const acting = Promise.withResolvers<void>();
  const { all: [a] } = servers(1, {
    approvals: { rules: ALLOW_EVERYTHING },
    tools: [{
      definition: { type: "function", function: { name: "act", parameters: { type: "object" } } },
      run() {
        acting.resolve();
        return acted.promise;
      },
    }],
  });
  const body = { model: "agent", messages: [{ role: "user", content: "q" }] };
  const answer = a!.handler.fetch(request("POST", "/v1/chat/completions", body));
  await a!.stepped.call("act");
  await acting.promise;
  const closed = a!.handler.close({ leaveWithinMs: 20_000 });
  acted.resolve("done");
  await a!.stepped.reply("one");
  const { choices } = await (await answer).json() as { choices: { message: { content: string } }[] };
  assertEquals(choices[0]?.message.content, "one");
  await closed;
  assertEquals(a!.errors, []);
});
