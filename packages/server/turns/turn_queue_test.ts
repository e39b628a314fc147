import { assertEquals, assertMatch } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import type { HttpAgent } from "@tare/server";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import {
  agent,
  call,
  error,
  events,
  newSession,
  refused,
  request,
  type SeenEvent,
  steppedModel,
  type TestOptions,
} from "../fixture_test.ts";
import { TurnQueue } from "./turn_queue.ts";

const waits = async (handler: HttpAgent, session: string, input: string, key?: string) => {
  const incoming = request("POST", `${session}/turns`, { input, background: true });
  if (key) incoming.headers.set("idempotency-key", key);
  const response = await handler.fetch(incoming);
  const { queued } = await response.json() as { queued?: { id: string } };
  return { status: response.status, id: queued?.id ?? "" };
};
const queueOf = async (handler: HttpAgent, session: string) => {
  const { queue } = (await call(handler, "GET", `${session}/queue`)).body as {
    queue: { id: string; input: string }[];
  };
  return queue.map(({ id, input }) => ({ id, input }));
};
const follow = async (handler: HttpAgent, session: string) =>
  await handler.fetch(request("GET", `${session}/events`));
const brief = (seen: readonly SeenEvent[]) =>
  seen.flatMap(({ event }) =>
    event.type === "turn_start"
      ? [`${event.input} ${event.id ?? "now"}`]
      : event.type === "turn_end"
      ? [event.reason]
      : []
  );

function narrow(options: TestOptions = {}) {
  const stepped = steppedModel();
  const errors: unknown[] = [];
  let nowMs = 0;
  const handler = agent(stepped.model, {
    now: () => nowMs++,
    maxRunningTurns: 1,
    onError: (error) => errors.push(error),
    ...options,
  });
  return { handler, stepped, errors };
}

Deno.test("TurnQueue: a background turn is accepted immediately, and begins after earlier ones, with a free slot", async () => {
  const { handler, stepped, errors } = narrow();
  const [one, two] = [await newSession(handler), await newSession(handler)];
  const running = events(await handler.fetch(request("POST", `${one}/turns`, { input: "first" })));
  await stepped.requested();
  const b = await waits(handler, two, "b");
  const a = await waits(handler, one, "a");
  const again = [await waits(handler, two, "c", "key"), await waits(handler, two, "c", "key")] as const;
  assertEquals([b.status, a.status, again[0]], [202, 202, again[1]]);
  const onTwo = events(await follow(handler, two));
  assertEquals(await queueOf(handler, two), [{ id: b.id, input: "b" }, { id: again[0].id, input: "c" }]);
  assertEquals(await queueOf(handler, one), [{ id: a.id, input: "a" }]);
  for (const reply of ["1", "2", "3", "4"]) await stepped.reply(reply);
  assertEquals(brief(await running), ["first now", "completed"]);
  assertEquals(brief(await onTwo), [`b ${b.id}`, "completed", `c ${again[0].id}`, "completed"]);
  assertEquals(brief(await events(await follow(handler, one))), [
    "first now",
    "completed",
    `a ${a.id}`,
    "completed",
  ]);
  assertEquals(stepped.requests.map(({ messages }) => messages.at(-1)?.content), ["first", "b", "a", "c"]);
  assertEquals([await queueOf(handler, one), errors], [[], []]);
});

Deno.test("TurnQueue: queued turns are counted over all sessions, and can be removed", async () => {
  const { handler, stepped } = narrow({ maxQueuedTurns: 2 });
  const [one, two] = [await newSession(handler), await newSession(handler)];
  const running = events(await handler.fetch(request("POST", `${one}/turns`, { input: "first" })));
  await stepped.requested();
  const [retained, gone] = [await waits(handler, one, "kept"), await waits(handler, two, "gone")];
  const full = await handler.fetch(request("POST", `${two}/turns`, { input: "more", background: true }));
  assertEquals([full.status, full.headers.get("retry-after")], [429, "30"]);
  assertMatch((await full.json()).error.message, /^Cannot queue the turn: the limit of queued turns \(2\)/);
  assertEquals((await call(handler, "DELETE", `${two}/queue/${gone.id}`)).status, 204);
  assertEquals((await call(handler, "DELETE", `${two}/queue/${gone.id}`)).status, 404);
  assertEquals(
    await refused(handler, "POST", `${two}/turns`, { input: "more", background: true, steer: true }),
    error(
      400,
      "invalid_request",
      "Cannot steer in the background: with steer the input enters the running turn, with background it waits for its end. Use one of them.",
    ),
  );
  for (const reply of ["1", "2"]) await stepped.reply(reply);
  assertEquals(brief(await running), ["first now", "completed"]);
  assertEquals(brief(await events(await follow(handler, one))).slice(2), [
    `kept ${retained.id}`,
    "completed",
  ]);
  assertEquals(brief(await events(await follow(handler, two))), []);
});

Deno.test("TurnQueue: a queued turn survives its server, and begins on the next one", async () => {
  const store = memoryStore();
  const first = narrow({ store });
  const session = await newSession(first.handler);
  await first.handler.fetch(request("POST", `${session}/turns`, { input: "first" }));
  await first.stepped.requested();
  const { id } = await waits(first.handler, session, "then");
  await first.handler.close();
  const second = narrow({ store });
  await second.handler.attend();
  const seen = events(await follow(second.handler, session));
  await second.stepped.reply("1");
  assertEquals(brief(await seen), ["first now", "interrupted", `then ${id}`, "completed"]);
});

Deno.test("TurnQueue: a turn queued on a full server begins on one with a free slot", async () => {
  const memory = sharedMemory();
  const timers: (() => void)[] = [];
  const after = (_ms: number, work: () => void) => {
    timers.push(work);
    return () => {};
  };
  const [a, b] = [0, 1].map(() => narrow({ store: memory.open().store, approvals: {}, after }));
  const [one, two] = [await newSession(a!.handler), await newSession(a!.handler)];
  await b!.handler.attend();
  await a!.handler.fetch(request("POST", `${one}/turns`, { input: "first" }));
  await a!.stepped.requested();
  const { id } = await waits(a!.handler, two, "then");
  const seen = events(await follow(a!.handler, two));
  for (const look of timers.splice(0)) look();
  await b!.stepped.reply("1");
  assertEquals(brief(await seen), [`then ${id}`, "completed"]);
  // A turn requested where its session's turn runs elsewhere is queued after that one.
  const behind = await waits(b!.handler, one, "behind");
  assertEquals(await queueOf(b!.handler, one), [{ id: behind.id, input: "behind" }]);
  for (const reply of ["2", "3"]) await a!.stepped.reply(reply);
  assertEquals(brief(await events(await follow(b!.handler, one))), [
    "first now",
    "completed",
    `behind ${behind.id}`,
    "completed",
  ]);
  assertEquals([a!.errors, b!.errors], [[], []]);
});

Deno.test("TurnQueue: a queued turn that can't start reports why, and later ones continue", async () => {
  const stepped = steppedModel();
  let isThere = true;
  const handler = agent(stepped.model, {
    store: memoryStore(),
    maxRunningTurns: 1,
    model: () => {
      if (!isThere) throw new Error("no such model");
      return stepped.model;
    },
  });
  const session = await newSession(handler);
  const running = events(await handler.fetch(request("POST", `${session}/turns`, { input: "first" })));
  await stepped.requested();
  const { id } = await waits(handler, session, "then");
  isThere = false;
  await stepped.reply("1");
  await running;
  const seen = await events(await follow(handler, session));
  assertEquals(brief(seen), ["first now", "completed", `then ${id}`, "internal_error"]);
  isThere = true;
  const next = await waits(handler, session, "last");
  await stepped.reply("2");
  assertEquals(brief(await events(await follow(handler, session))).slice(4), [
    `last ${next.id}`,
    "completed",
  ]);
});

Deno.test("TurnSlots.wait() lets requests wait for a slot, in their order", async () => {
  const { handler, stepped } = narrow();
  const paths = [await newSession(handler), await newSession(handler)];
  const first = await handler.fetch(request("POST", `${paths[0]}/turns`, { input: "first" }));
  await stepped.requested();
  const second = handler.fetch(request("POST", `${paths[1]}/turns`, { input: "second" }));
  const third = await handler.fetch(
    request("POST", `${await newSession(handler)}/turns`, { input: "third" }),
  );
  assertEquals(third.status, 429, "one may wait for one that runs");
  await stepped.reply("1");
  assertEquals(brief(await events(first)), ["first now", "completed"]);
  await stepped.reply("2");
  assertEquals(brief(await events(await second)), ["second now", "completed"]);
});

Deno.test("TurnQueue.look() starts turns that were queued while an earlier look was ending", async () => {
  for (let steps = 0; steps < 20; steps++) {
    let waiting: readonly string[] = [];
    const started: string[] = [];
    const queue = new TurnQueue({
      store: {
        ...memoryStore(),
        sessionsWith: (name) =>
          Promise.resolve(
            name === "queue" ? waiting.map((id) => ({ id, value: { atMs: 0, count: 1 } })) : [],
          ),
      },
      room: () => 1,
      start(id) {
        waiting = [];
        started.push(id);
        return Promise.resolve(true);
      },
      most: 1,
      onError(error) {
        throw error;
      },
    });
    const first = queue.inspect();
    for (let step = 0; step < steps; step++) await Promise.resolve();
    waiting = ["a"];
    await queue.inspect();
    assertEquals([steps, started], [steps, ["a"]]);
    await first;
  }
});

Deno.test("TurnQueue.look() never rejects, and retries after an error", async () => {
  const errors: unknown[] = [];
  let isAway = true;
  let looks = 0;
  const memory = memoryStore();
  const queue = new TurnQueue({
    store: {
      ...memory,
      sessionsWith: (name) => {
        looks++;
        return isAway ? Promise.reject(new Error("Away.")) : memory.sessionsWith(name);
      },
    },
    room: () => 1,
    start: () => Promise.resolve(false),
    most: 1,
    onError: (error) => errors.push(String(error)),
  });
  await queue.inspect();
  isAway = false;
  await queue.inspect();
  assertEquals([looks, errors], [2, ["Error: Away."]]);
});

Deno.test("TurnQueue.look() starts the oldest turns, one per session, while slots are free", async () => {
  const play = async (room: number, refused: readonly string[] = []) => {
    let left = room;
    const requests: string[] = [];
    const waiting = new Map([["late", 3], ["early", 1], ["held", 0], ["between", 2], ["pendingApproval", 0]]);
    const queue = new TurnQueue({
      store: {
        ...memoryStore(),
        sessionsWith: (name) =>
          Promise.resolve(
            name === "queue"
              ? [...waiting].map(([id, atMs]) => ({ id, value: { atMs, count: 1 }, isHeld: id === "held" }))
              : [{ id: "pendingApproval", value: {} }],
          ),
      },
      room: () => left,
      start(id) {
        // Stops an endless search.
        if (requests.push(id) > 9) throw new Error("Asked again and again.");
        if (refused.includes(id)) return Promise.resolve(false);
        left--;
        waiting.delete(id);
        return Promise.resolve(true);
      },
      most: 9,
      onError(error) {
        throw error;
      },
    });
    await queue.inspect();
    return requests;
  };
  assertEquals([await play(0), await play(1), await play(2)], [[], ["early"], ["early", "between"]]);
  assertEquals(await play(3), ["early", "between", "late"]);
  assertEquals(await play(1, ["early", "between", "late"]), ["early", "between", "late"]);
});
