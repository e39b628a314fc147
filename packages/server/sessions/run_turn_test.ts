import { assertEquals, assertThrows } from "@std/assert";
import type { LoopEvent, Model } from "@tare/loop";
import { estimateTokens } from "@tare/messages";
import { memoryStore, type SessionStore, StoreError } from "@tare/store";
import { scriptedModel, silentModel } from "../fixture_test.ts";
import { startTurn, type TurnOptions } from "./run_turn.ts";
import { Player, scriptedSessions, type ScriptStep, snapshot, unpaired } from "../script_fixture_test.ts";
import type { Session } from "./session.ts";
import { failingStore, FULL } from "./store_fixture_test.ts";

const QUIET: ScriptStep = { steer: [], cancels: false, fails: false, calls: [], finish: "stop" };
const READ = { tool: "read", outcome: "text", size: 100 } as const;

function options(model: Model): TurnOptions {
  return { model, countTokens: () => Promise.resolve(estimateTokens), onError() {} };
}

/** A store that calls back before it commits events. */
function watchedStore(see: (events: readonly { readonly type: string }[]) => void): SessionStore {
  const store = memoryStore();
  return {
    ...store,
    appendEvents(id, events, options) {
      see(events);
      return store.appendEvents(id, events, options);
    },
  };
}

function said({ history }: Session): unknown[] {
  return history.map(({ role, content }) => `${role[0]}: ${content}`);
}

Deno.test("startTurn() commits the turn's start before it returns, and leaves the session idle before its end is read", async () => {
  const session = await scriptedSessions({ store: memoryStore() }).create({});
  const seen: [LoopEvent["type"] | "message_added", boolean][] = [];
  startTurn(session, "q", options(scriptedModel([{ content: "a" }])));
  assertEquals(session.lastEvent, 1);
  for await (const { event } of session.events.read()) seen.push([event.type, session.running !== undefined]);
  assertEquals(seen, [
    ["turn_start", true],
    ["step_start", true],
    ["text_delta", true],
    ["assistant_message", true],
    ["step_end", true],
    ["turn_end", false],
  ]);
});

Deno.test("startTurn() throws if the start can't be committed, and nothing has happened", async () => {
  const store = failingStore((call) => call === 1);
  const session = await scriptedSessions({ store }).create({});
  const before = snapshot(session);
  assertThrows(() => startTurn(session, "q", options(scriptedModel([]))), StoreError, FULL);
  assertEquals([snapshot(session), session.running, store.lastEvent(session.id)], [before, undefined, 0]);
  await new Player().play(session, "q");
  assertEquals(session.turns, 1);
});

Deno.test("startTurn() ends a turn whose writes fail at any call with what is stored, and goes on afterwards", async () => {
  const script = [{ ...QUIET, calls: [READ, READ], steer: ["also"] }, { ...QUIET, calls: [READ] }];
  const whole = failingStore(() => false);
  await new Player().play(await scriptedSessions({ store: whole }).create({}), "look", script);
  for (const lasting of [false, true]) {
    for (let n = 2; n <= whole.calls; n++) {
      let broken = true;
      const store = failingStore((call) => lasting ? broken && call >= n : call === n);
      const player = new Player();
      const sessions = scriptedSessions({ store, tools: player.tools });
      const session = await sessions.create({});
      const seen: unknown[] = [];
      let failure: unknown;
      const playing = player.play(session, "look", script);
      try {
        for await (const numbered of session.events.read()) seen.push(numbered);
      } catch (error) {
        failure = error;
      }
      await playing;
      broken = false;
      assertEquals(session.running, undefined);
      assertEquals((failure as Error | undefined)?.message, lasting ? FULL : undefined);

      const after = await sessions.get(session.id);
      const stored = store.readEvents(session.id);
      assertEquals(stored.slice(0, seen.length), seen, "what was seen is stored");
      const { type, reason, message } = stored.at(-1)!.event;
      const answered = after.history.at(-1)?.role === "assistant";
      assertEquals([type, reason, message], [
        "turn_end",
        ...(!lasting
          ? ["internal_error", FULL]
          : answered
          ? ["completed", undefined]
          : ["interrupted", "The server ended in the middle of this turn. It can be continued."]),
      ]);
      assertEquals(unpaired(after.history), []);
      for (const { said } of player.accepted) {
        assertEquals(after.history.filter(({ content }) => content === said).length, 1);
      }
      assertEquals(
        snapshot(await scriptedSessions({ store, tools: player.tools }).get(session.id)),
        snapshot(after),
      );
      await player.play(after, "and now?");
      assertEquals(store.readEvents(session.id).at(-1)?.event.reason, "completed");
      assertEquals(player.errors.length, lasting ? 2 : 1);
    }
  }
});

Deno.test("startTurn() lets what the user says enter before the next model call, and after the answer", async () => {
  const session = await scriptedSessions({ store: memoryStore(), tools: new Player().tools }).create({});
  const player = new Player();
  await player.play(session, "q", [{ ...QUIET, calls: [READ], steer: ["more"] }, {
    ...QUIET,
    steer: ["last"],
  }]);
  assertEquals(said(session), [
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

Deno.test("startTurn() keeps what the user said too late for the turn", async () => {
  const store = memoryStore();
  const session = await scriptedSessions({ store }).create({});
  const { model, asked } = silentModel();
  startTurn(session, "q", options(model));
  await asked;
  session.running?.steer("late");
  session.running?.cancel();
  await session.running?.done;
  assertEquals(said(session), ["s: Be brief.", "u: q", "u: late"]);
  assertEquals(store.readEvents(session.id).slice(-2).map(({ event }) => [event.type, event.step]), [
    ["user_message", 1],
    ["turn_end", undefined],
  ]);
  await new Player().play(session, undefined);
  assertEquals(said(session), ["s: Be brief.", "u: q", "u: late", "a: 1.0"]);
});

Deno.test("startTurn() keeps what the loop took and never got to say", async () => {
  const store = watchedStore(([event]) => {
    if (event?.type !== "step_end") return;
    session.running?.cancel();
    session.running?.steer("late");
  });
  const session = await scriptedSessions({ store }).create({});
  await new Player().play(session, "q");
  assertEquals(store.readEvents(session.id).at(-1)?.event.reason, "cancelled");
  assertEquals(said(session), ["s: Be brief.", "u: q", "a: 1.0", "u: late"]);
});

Deno.test("startTurn() stores edits before the request that relies on them", async () => {
  for (const policy of ["planner", "classic"] as const) {
    const store = memoryStore();
    const session = await scriptedSessions({ store, policy }).create({});
    const editsOf = (state: unknown) =>
      (state as { readonly edits: readonly unknown[] } | undefined)?.edits ?? [];
    const counts: [stored: number, relied: number][] = [];
    const args = JSON.stringify({ outcome: "text", size: 12_000 });
    const call = (id: string) =>
      ({ id, type: "function", function: { name: "read", arguments: args } }) as const;
    const inner = scriptedModel([..."abcdef"].map((id) => ({ tool_calls: [call(id)] })));
    const model: Model = (request) => {
      const stored = editsOf(store.readState(session.id, "context"));
      counts.push([stored.length, editsOf(session.context.state).length]);
      return inner(request);
    };
    startTurn(session, "q", options(model));
    await session.running?.done;
    assertEquals(counts.map(([stored]) => stored), counts.map(([, relied]) => relied));
    assertEquals([counts.length, counts[0]![1], counts.at(-1)![1] > 0], [7, 0, true]);
  }
});

Deno.test("startTurn() stores an edit and tells of it in one write", async () => {
  const told: boolean[] = [];
  const store = memoryStore();
  let edits = 0;
  const watched: SessionStore = {
    ...store,
    appendEvents(id, events, options) {
      const context = options?.state?.context as { readonly edits: readonly unknown[] } | undefined;
      if (context && context.edits.length > edits) {
        edits = context.edits.length;
        told.push(events.some(({ type }) => type === "context_rewritten"));
      }
      return store.appendEvents(id, events, options);
    },
  };
  const player = new Player();
  const session = await scriptedSessions({ store: watched, tools: player.tools }).create({});
  await player.play(session, "q", [{ ...QUIET, calls: [{ ...READ, size: 40_000 }] }, QUIET]);
  assertEquals(told, [true]);
});
