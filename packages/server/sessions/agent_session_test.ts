import { assertEquals, assertRejects } from "@std/assert";
import { contentText, type Model } from "@tare/messages";
import { type Store, StoreError } from "@tare/session";
import { SessionRecords } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";
import { HttpError } from "../http/http_error.ts";
import { scriptedModel, silentModel, UNREPORTED } from "../fixture_test.ts";
import {
  makeSession,
  Player,
  scriptedSessions,
  type ScriptStep,
  snapshot,
  unpaired,
} from "../script_fixture_test.ts";
import type { SessionEvent } from "./session_types.ts";
import type { AgentSession } from "./agent_session.ts";
import { failingStore, FULL } from "./store_fixture_test.ts";

const QUIET: ScriptStep = { steer: [], cancels: false, fails: false, calls: [], finish: "stop" };
const READ = { tool: "read", outcome: "text", size: 100 } as const;

function texts({ history }: AgentSession): unknown[] {
  return history.map(({ role, content }) => `${role[0]}: ${content}`);
}

Deno.test("AgentSession.start() commits the turn's start before it returns, and is idle before the end can be read", async () => {
  const model = () => scriptedModel([{ content: "a" }]);
  const session = await makeSession(scriptedSessions({ store: memoryStore(), model }));
  const seen: [SessionEvent["type"], boolean][] = [];
  await session.start({ input: "q" });
  assertEquals([session.lastEvent >= 1, session.isRunning], [true, true]);
  for await (const { event } of session.events.read()) seen.push([event.type, session.isRunning]);
  assertEquals(seen, [
    ["turn_start", true],
    ["step_start", true],
    ["text_delta", true],
    // Committed with the end, in one write.
    ["assistant_message", false],
    ["step_end", false],
    ["turn_end", false],
  ]);
});

Deno.test("AgentSession.start() throws and changes nothing if the start can't be committed", async () => {
  const store = failingStore((call) => call === 1);
  const session = await makeSession(scriptedSessions({ store }));
  const before = snapshot(session);
  await assertRejects(() => session.start({ input: "q" }), StoreError, FULL);
  assertEquals([snapshot(session), session.isRunning, await store.lastEvent(session.id)], [before, false, 0]);
  await new Player().play(session, "q");
  assertEquals(session.totals.turns, 1);
});

Deno.test("AgentSession.start() ends a turn whose writes fail with its stored part, and continues afterwards", async () => {
  const script = [{ ...QUIET, calls: [READ, READ], steer: ["also"] }, { ...QUIET, calls: [READ] }];
  const whole = failingStore(() => false);
  await new Player().play(await makeSession(scriptedSessions({ store: whole })), "look", script);
  for (const lasting of [false, true]) {
    for (let n = 2; n <= whole.calls; n++) {
      let broken = true;
      const store = failingStore((call) => lasting ? broken && call >= n : call === n);
      const player = new Player();
      const sessions = scriptedSessions({ store, tools: player.tools });
      const session = await makeSession(sessions);
      const seen: unknown[] = [];
      let failure: unknown;
      const turn = await player.start(session, "look", script);
      try {
        for await (const numbered of session.events.read()) seen.push(numbered);
      } catch (error) {
        failure = error;
      }
      await turn.done;
      broken = false;
      assertEquals(session.isRunning, false);
      assertEquals((failure as Error | undefined)?.message, lasting ? FULL : undefined);

      const after = await sessions.get(session.id);
      const written = await store.readEvents(session.id);
      const events: readonly unknown[] = await Array.fromAsync(after.events.read());
      assertEquals(events.slice(0, written.length), written);
      assertEquals(written.slice(0, seen.length), seen, "what was seen is stored");
      const { type, reason, message } = (events.at(-1) as typeof written[number]).event;
      const answered = after.history.at(-1)?.role === "assistant";
      assertEquals([type, reason, message], [
        "turn_end",
        ...(!lasting
          ? ["internal_error", FULL]
          : answered
          ? ["completed", undefined]
          : ["interrupted", "The server stopped during this turn. The turn can be continued."]),
      ]);
      assertEquals(unpaired(after.history), []);
      for (const { text } of player.accepted) {
        assertEquals(after.history.filter(({ content }) => content === text).length, 1);
      }
      await player.play(after, "and now?");
      assertEquals((await store.readEvents(session.id)).at(-1)?.event.reason, "completed");
      assertEquals(
        snapshot(await scriptedSessions({ store, tools: player.tools }).get(session.id)),
        snapshot(after),
      );
      assertEquals(player.errors.length, lasting ? 2 : 1);
    }
  }
});

Deno.test("AgentSession.start() adds a steering input before the next model call, and after the answer", async () => {
  const session = await makeSession(scriptedSessions({ store: memoryStore(), tools: new Player().tools }));
  const player = new Player();
  await player.play(session, "q", [{ ...QUIET, calls: [READ], steer: ["more"] }, {
    ...QUIET,
    steer: ["last"],
  }]);
  assertEquals(texts(session), [
    "s: Be brief.",
    "u: q",
    "a: 1.0",
    `t: ${"read ".repeat(20)}`,
    "u: more",
    "a: 1.1",
    "u: last",
    "a: 1.2",
  ]);
});

Deno.test("AgentSession.start() keeps a steering input that comes too late for the turn", async () => {
  const store = memoryStore();
  const { model, requested } = silentModel();
  const session = await makeSession(scriptedSessions({ store, model: () => model }));
  await session.start({ input: "q" });
  await requested;
  await session.steerOrStart({ input: "late" });
  await session.cancel();
  assertEquals(texts(session), ["s: Be brief.", "u: q", "u: late"]);
  assertEquals((await store.readEvents(session.id)).slice(-2).map(({ event }) => [event.type, event.step]), [
    ["user_message", 1],
    ["turn_end", undefined],
  ]);
  const restarted = await scriptedSessions({ store }).get(session.id);
  await new Player().play(restarted, undefined);
  assertEquals(texts(restarted), ["s: Be brief.", "u: q", "u: late", "a: 1.0"]);
});

Deno.test("AgentSession.steerOrStart() queues a hundred inputs, and refuses more until a model call receives them", async () => {
  const { model, requested } = silentModel();
  const session = await makeSession(scriptedSessions({ store: memoryStore(), model: () => model }));
  await session.start({ input: "q" });
  await requested;
  for (let number = 1; number <= 100; number++) await session.steerOrStart({ input: `${number}` });
  const error = await assertRejects(() => session.steerOrStart({ input: "one more" }), HttpError);
  assertEquals([error.status, error.code], [429, "too_much_steering"]);
  await session.cancel();
  assertEquals(texts(session).slice(2), Array.from({ length: 100 }, (_, index) => `u: ${index + 1}`));
});

Deno.test("AgentSession.start() keeps inputs that the loop took and never reported", async () => {
  const store = memoryStore();
  let hasAnswered = false;
  const model: Model = async function* () {
    await session.steerOrStart({ input: "late" });
    hasAnswered = true;
    yield {
      type: "completed",
      message: { role: "assistant", content: "a" },
      finishReason: "stop",
      usage: UNREPORTED,
    };
  };
  // The loop reads the time immediately before it reads steering inputs.
  const now = () => (hasAnswered && void session.cancel(), 0);
  const session = await makeSession(scriptedSessions({ store, model: () => model, now }));
  await (await session.start({ input: "q" })).done;
  assertEquals((await store.readEvents(session.id)).at(-1)?.event.reason, "cancelled");
  assertEquals(texts(session), ["s: Be brief.", "u: q", "a: a", "u: late"]);
});

function editsOf(state: unknown): readonly unknown[] {
  return (state as { readonly context?: { readonly edits: readonly unknown[] } } | undefined)?.context
    ?.edits ?? [];
}

Deno.test("AgentSession.start() stores edits before the request that relies on them", async () => {
  for (const policy of ["planner", "classic"] as const) {
    const store = memoryStore();
    const counts: [stored: number, relied: number][] = [];
    const args = JSON.stringify({ outcome: "text", size: 20_000 });
    const call = (id: string) =>
      ({ id, type: "function", function: { name: "read", arguments: args } }) as const;
    const inner = scriptedModel([..."abcdef"].map((id) => ({ tool_calls: [call(id)] })), UNREPORTED);
    const model: Model = async function* (request) {
      const { id } = session;
      const stored = editsOf((await new SessionRecords(store, id).read()).value);
      counts.push([stored.length, editsOf(session.prompt.state).length]);
      yield* inner(request);
    };
    const session = await makeSession(scriptedSessions({ store, policy, model: () => model }));
    await (await session.start({ input: "q" })).done;
    assertEquals(counts.map(([stored]) => stored), counts.map(([, relied]) => relied));
    assertEquals([counts.length, counts[0]![1], counts.at(-1)![1] > 0], [7, 0, true]);
  }
});

Deno.test("AgentSession.start() stores an edit and its event in one write", async () => {
  const reported: boolean[] = [];
  const memory = memoryStore();
  let edits = 0;
  const store: Store = {
    ...memory,
    async commit(records) {
      await memory.commit(records);
      const state = records.find((record) => record.type === "state");
      if (!state) return;
      const stored = editsOf((await new SessionRecords(memory, state.sessionId).read()).value).length;
      const events = records.flatMap((one) => one.type === "events" ? one.events : []);
      if (stored > edits) reported.push(events.some(({ type }) => type === "context_rewritten"));
      edits = stored;
    },
  };
  const player = new Player();
  const session = await makeSession(scriptedSessions({ store, tools: player.tools }));
  await player.play(session, "q", [{ ...QUIET, calls: [{ ...READ, size: 40_000 }] }, QUIET]);
  assertEquals(reported, [true]);
});

Deno.test("ledger: a turn's ledger includes the cost of a summary, and the summary's model reports progress", async () => {
  const usage = { promptTokens: 2_000, cachedTokens: 1_900, outputTokens: 30 };
  let summaries = 0;
  let alive = 0;
  const model: Model = async function* ({ messages, progress }) {
    const isSummary = contentText(messages.at(-1)?.content).startsWith("The context window is nearly full.");
    if (isSummary) {
      summaries++;
      if (progress) alive++;
    }
    const content = isSummary ? "They told stories." : "story ".repeat(300);
    yield {
      type: "completed",
      message: { role: "assistant", content },
      finishReason: "stop",
      usage: isSummary ? usage : { ...UNREPORTED, promptTokens: 500 },
    };
  };
  const sessions = scriptedSessions({ store: memoryStore(), model: () => model, windowTokens: 4_000 });
  const session = await makeSession(sessions);
  const taken: number[] = [];
  for (let turn = 0; turn < 12; turn++) {
    const before = summaries;
    await (await session.start({ input: `story ${turn}` })).done;
    taken.push(2_000 * (summaries - before) + 500);
  }
  const ends = [];
  for await (const { event } of session.events.read()) if (event.type === "turn_end") ends.push(event);
  assertEquals(ends.map(({ ledger }) => ledger.promptTokens), taken);
  assertEquals(ends.map(({ reason, ledger }) => [reason, ledger.calls]), Array(12).fill(["completed", 1]));
  assertEquals([summaries > 0, alive], [true, summaries]);
});
