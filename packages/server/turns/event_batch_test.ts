import { assertEquals, assertRejects } from "@std/assert";
import { ModelError } from "@tare/loop";
import type { Model, Tool } from "@tare/messages";
import { StoreError } from "@tare/session";
import { echo, FakeClock } from "../fixture_test.ts";
import { FULL } from "../sessions/store_fixture_test.ts";
import { call, dictatedSession, USAGE } from "./dictation_fixture_test.ts";
import { EventBatch } from "./play_turn.ts";

Deno.test(
  "EventBatch: the first delta is committed immediately, later ones every 100 ms, the last ones with the reply",
  async () => {
    const { session, clock, dictation, commits, visible } = await dictatedSession();
    const { done } = await session.start({ input: "q" });
    await dictation.requested();
    assertEquals(commits, ["turn_start (title) (turn)"]);
    await dictation.say("1");
    await visible(3);
    for (const text of ["2", "3"]) await dictation.say(text);
    clock.advance(99);
    await dictation.say("4");
    assertEquals([session.lastEvent, commits.slice(1)], [3, ['step_start "1"']]);
    clock.advance(1);
    await visible(4);
    await dictation.say("5");
    clock.advance(100);
    await visible(5);
    clock.advance(110);
    await dictation.say("6");
    await visible(6);
    await dictation.say("7");
    dictation.end();
    await done;
    assertEquals(commits.slice(1), [
      'step_start "1"',
      '"234"',
      '"5"',
      '"6"',
      '"7" assistant_message step_end turn_end (value) (totals) totals (turn)',
    ]);
  },
);

Deno.test("EventBatch: a step with calls takes a commit before they run and one before the next request", async () => {
  const stored: string[][] = [];
  const read = async () => {
    stored.push((await store.readEvents(session.id)).slice(-3).map(({ event }) => event.type));
  };
  const tool: Tool = { ...echo, run: async () => (await read(), "x") };
  const { session, store, dictation, commits } = await dictatedSession({ tools: [tool] });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  dictation.end({ tool_calls: [call("a"), call("b")] });
  await dictation.requested();
  await read();
  dictation.end();
  await done;
  assertEquals(commits, [
    "turn_start (title) (turn)",
    "step_start assistant_message tool_call tool_call (value)",
    "tool_result tool_result step_end step_start (totals) totals",
    "assistant_message step_end turn_end (patch) (totals) totals (turn)",
  ]);
  const called = ["assistant_message", "tool_call", "tool_call"];
  assertEquals(stored, [called, called, ["tool_result", "step_end", "step_start"]]);
});

Deno.test("EventBatch: calls that the client runs need no commit of their own", async () => {
  const { session, dictation, commits } = await dictatedSession();
  const clientTools = [{ type: "function", function: { name: "theirs" } }] as const;
  const { done } = await session.start({ input: "q", clientTools });
  await dictation.requested();
  dictation.end({ tool_calls: [call("a", "theirs")] });
  await done;
  assertEquals(commits, [
    "turn_start (title)",
    "step_start assistant_message tool_call step_end turn_end (value) (totals) totals",
  ]);
});

Deno.test("EventBatch: readers get all events in order, however they were committed", async () => {
  const read = async (speed: (clock: FakeClock) => void) => {
    const { session, clock, dictation } = await dictatedSession();
    const { done } = await session.start({ input: "q" });
    for (const reply of [{ tool_calls: [call("a"), call("b")] }, {}]) {
      await dictation.requested();
      for (const text of "one two three".split(" ")) {
        await dictation.say(text);
        speed(clock);
      }
      dictation.end(reply);
    }
    await done;
    const all = await Array.fromAsync(session.events.read());
    assertEquals(all.map(({ number }) => number), all.map((_, index) => index + 1));
    // Durations differ in each run.
    return all.map(({ event }) => ({ ...event, durationMs: 0, atMs: 0 }));
  };
  const stepEvents = (...texts: string[]) => ["step_start", ...texts, "assistant_message"];
  const between = ["tool_call", "tool_call", "tool_result", "tool_result", "step_end"];
  const typesOf = (events: Awaited<ReturnType<typeof read>>) =>
    events.map((event) => event.type === "text_delta" ? event.text : event.type);
  const atOnce = await read((clock) => clock.advance(1000));
  const one = stepEvents("one", "two", "three");
  assertEquals(typesOf(atOnce), ["turn_start", ...one, ...between, ...one, "step_end", "turn_end"]);
  const gathered = await read(() => {});
  const two = stepEvents("one", "twothree");
  assertEquals(typesOf(gathered), ["turn_start", ...two, ...between, ...two, "step_end", "turn_end"]);
  const others = (events: typeof atOnce) => events.filter(({ type }) => type !== "text_delta");
  assertEquals(others(gathered), others(atOnce));
});

Deno.test("EventBatch: during a slow view, earlier events are readable without the new state of the prompt", async () => {
  let calls = 0;
  const tool: Tool = { ...echo, run: () => `${calls} `.repeat(calls < 5 ? 3_000 : 40_000) };
  const model: Model = async function* () {
    const isLast = ++calls > 5;
    yield {
      type: "completed",
      message: { role: "assistant", content: "x", ...(!isLast && { tool_calls: [call(`${calls}`)] }) },
      finishReason: isLast ? "stop" : "tool_calls",
      usage: { ...USAGE, promptTokens: 1_500 * calls },
    };
  };
  // The huge result is truncated by then, and an older one is evicted.
  const isEnding = (content: string) => calls === 5 && content.startsWith("4");
  const ending = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const { session, clock, commits, visible } = await dictatedSession({
    model: () => model,
    tools: [tool],
    put: (content) => isEnding(content) ? (ending.resolve(), left.promise) : undefined,
  });
  const { done } = await session.start({ input: "q" });
  await ending.promise;
  clock.advance(100);
  await visible(session.lastEvent + 3);
  left.resolve();
  await done;
  assertEquals(commits.slice(-3), [
    "tool_result step_end step_start (totals) totals",
    "context_rewritten context_rewritten archive (value)",
    "assistant_message step_end turn_end (patch) (totals) totals (turn)",
  ]);
});

Deno.test("EventBatch: a slow store gets one commit at a time, with the events gathered meanwhile", async () => {
  const slow = Promise.withResolvers<void>();
  const underWay: string[] = [];
  const { session, clock, dictation, commits, visible } = await dictatedSession({
    see(commit) {
      underWay.push(commit);
      return commit.includes('"1"') ? slow.promise : undefined;
    },
  });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  for (const text of "12345") {
    await dictation.say(text);
    clock.advance(100);
  }
  assertEquals([underWay.slice(2), commits.slice(1), session.lastEvent], [['step_start "1"'], [], 1]);
  slow.resolve();
  await visible(4);
  dictation.end();
  await done;
  assertEquals(commits.slice(1), [
    'step_start "1"',
    '"2345"',
    "assistant_message step_end turn_end (value) (totals) totals (turn)",
  ]);
});

Deno.test("EventBatch: a failed commit of deltas ends the turn while its model is silent, and none can be read", async () => {
  const errors: unknown[] = [];
  let isFull = false;
  const { session, sessions, store, clock, dictation } = await dictatedSession({
    see() {
      if (isFull) throw new StoreError("full", FULL);
    },
    onError: (error) => errors.push((error as Error).message),
  });
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  await dictation.say("shown");
  const seen: unknown[] = [];
  const read = async () => {
    for await (const { event } of session.events.read()) seen.push(event.type);
  };
  const reading = assertRejects(read, Error, FULL);
  await dictation.say("lost");
  isFull = true;
  clock.advance(100);
  await done;
  await reading;
  assertEquals(seen, ["turn_start", "step_start", "text_delta"]);
  assertEquals((await store.readEvents(session.id)).map(({ event }) => event.type), seen);
  assertEquals(errors, [FULL, FULL]);
  isFull = false;
  const after = await sessions.get(session.id);
  assertEquals((await Array.fromAsync(after.events.read())).map(({ event }) => event.type), [
    ...["turn_start", "step_start", "text_delta", "turn_end"],
  ]);
});

for (const way of ["cancelled", "closed"] as const) {
  Deno.test(`EventBatch: a turn that is ${way} between two commits ends with all its text`, async () => {
    const { session, sessions, dictation, commits } = await dictatedSession();
    const { done } = await session.start({ input: "q" });
    await dictation.requested();
    for (const text of "123") await dictation.say(text);
    await (way === "closed" ? sessions.close() : session.cancel());
    await done;
    assertEquals(commits.slice(1), [
      'step_start "1"',
      '"23" reply_unfinished turn_end (totals) totals (turn)',
    ]);
    const events = await Array.fromAsync(session.events.read());
    assertEquals(events.map(({ event }) => "text" in event ? event.text : event.type), [
      ...["turn_start", "step_start", "1", "23", "reply_unfinished", ""],
    ]);
  });
}

Deno.test("EventBatch: a turn whose model fails between two commits ends with all its text", async () => {
  for (
    const [error, reason] of [
      [new ModelError("provider_error", "gone"), "model_error"],
      [new TypeError("a bug"), "internal_error"],
    ] as const
  ) {
    const model: Model = async function* () {
      for (const text of "123") yield { type: "text_delta", text };
      throw error;
    };
    const { session } = await dictatedSession({ model: () => model });
    await (await session.start({ input: "q" })).done;
    const events = await Array.fromAsync(session.events.read());
    assertEquals(
      events.map(({ event }) => "reason" in event ? event.reason : "text" in event && event.text),
      [
        ...[false, false, "1", "23", false, reason],
      ],
    );
  }
});

Deno.test("EventBatch: a steering input no longer waits after the commit of its event", async () => {
  const { session, store, dictation, commits } = await dictatedSession();
  const { done } = await session.start({ input: "q" });
  await dictation.requested();
  await dictation.say("1");
  await session.steerOrStart({ input: "more" });
  dictation.end({ tool_calls: [call("a")] });
  await dictation.requested();
  assertEquals(await store.readState(session.id, "steering"), []);
  dictation.end();
  await done;
  assertEquals(commits.slice(1), [
    'step_start "1"',
    "(steering)",
    "assistant_message tool_call (value)",
    "tool_result step_end step_start user_message (totals) totals (steering)",
    "assistant_message step_end turn_end (patch) (totals) totals (turn)",
  ]);
});

async function replyAfterSlowCommit() {
  const [slow, begun] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const commits: [string, boolean][] = [];
  const clock = new FakeClock();
  const batch = new EventBatch({
    clock,
    failed() {},
    async commit(events, { settled }) {
      commits.push([events.map(({ type }) => type).join(" "), settled]);
      begun.resolve();
      if (commits.length === 1) await slow.promise;
    },
  });
  batch.add({ type: "text_delta", step: 1, text: "1" });
  await begun.promise;
  batch.add({ type: "text_delta", step: 1, text: "2" });
  clock.advance(100);
  batch.add({ type: "assistant_message", step: 1, message: { role: "assistant", content: "12" } });
  return { batch, commits, slow, clock };
}

Deno.test("EventBatch: a complete reply isn't committed with deltas, but with the changed state of the prompt", async () => {
  const { batch, commits, slow } = await replyAfterSlowCommit();
  slow.resolve();
  await batch.committed;
  await batch.settle();
  assertEquals(commits, [["text_delta", false], ["text_delta", false], ["assistant_message", true]]);
});

Deno.test("EventBatch: events after a settling commit are committed after it", async () => {
  const { batch, commits, slow, clock } = await replyAfterSlowCommit();
  const settled = batch.settle();
  batch.add({ type: "step_start", step: 2 });
  slow.resolve();
  await settled;
  assertEquals(commits, [["text_delta", false], ["text_delta assistant_message", true]]);
  clock.advance(100);
  await batch.committed;
  assertEquals(commits.slice(2), [["step_start", false]]);
});
