import { ALLOW_EVERYTHING } from "@tare/server";
import { assert, assertEquals, assertNotStrictEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { sessionBody } from "../api/session_body.ts";
import { HttpError } from "../http/http_error.ts";
import type { NumberedEvent } from "./session_types.ts";
import { SessionRegistry } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";
import fc, { cases } from "../../../tests/cases.ts";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { agent, events, newSession, request, scriptedModel, silentModel, turn } from "../fixture_test.ts";
import {
  makeSession,
  Player,
  scriptedSessions,
  scriptTurns,
  snapshot,
  unpaired,
} from "../script_fixture_test.ts";
import { recordedStore } from "./store_fixture_test.ts";

const policies = fc.constantFrom("planner" as const, "classic" as const);
const HOUR = 3_600_000;

async function readAll(events: AsyncIterable<NumberedEvent>): Promise<NumberedEvent[]> {
  return await Array.fromAsync(events);
}

function userMessages({ history }: { readonly history: readonly { role: string; content?: unknown }[] }) {
  return history.filter(({ role }) => role === "user").map(({ content }) => content);
}

Deno.test("Sessions.get() restores a session that has the same state and requests as the one in memory", async () => {
  await fc.assert(
    fc.asyncProperty(scriptTurns, policies, fc.constantFrom(1_000, HOUR), async (turns, policy, idleMs) => {
      const store = recordedStore();
      const player = new Player();
      let nowMs = 0;
      const now = () => nowMs;
      const { tools } = player;
      const session = await makeSession(scriptedSessions({ store, policy, tools, now }));
      for (const [index, steps] of turns.entries()) {
        await player.play(session, `turn ${index}`, steps);
        nowMs += idleMs;
        const restored = await scriptedSessions({ store, policy, tools, now }).get(session.id);
        assertNotStrictEquals(restored, session);
        assertEquals(snapshot(restored), snapshot(session));
        assertEquals(unpaired(session.history), []);
      }
      const copy = await store.upTo(store.writes);
      const restored = await scriptedSessions({ store: copy, policy, tools, now }).get(session.id);
      await player.play(session, "and now?");
      const other = new Player();
      await other.play(restored, "and now?");
      assertEquals(other.requests.at(-1), player.requests.at(-1));
      const texts = turns.map((_, index) => `turn ${index}`);
      assertEquals(
        userMessages(session).toSorted(),
        [...texts, ...player.accepted.map(({ text }) => text), "and now?"].toSorted(),
      );
    }),
    { numRuns: cases(40) },
  );
});

Deno.test("Sessions.get() continues a turn whose process ended after any write, to its end, once and without loss", async () => {
  await fc.assert(
    fc.asyncProperty(
      scriptTurns,
      policies,
      fc.constantFrom("report" as const, "repeat" as const),
      async (turns, policy, unknownOutcome) => {
        const store = recordedStore();
        const player = new Player(() => store.writes);
        const { tools } = player;
        const session = await makeSession(scriptedSessions({ store, policy, tools }));
        for (const [index, steps] of turns.entries()) await player.play(session, `turn ${index}`, steps);
        const all = await store.readEvents(session.id);

        for (let writes = 1; writes <= store.writes; writes++) {
          const copy = await store.upTo(writes);
          const before = await copy.readEvents(session.id);
          assertEquals(before, all.slice(0, before.length));
          const open = isOpen(before);
          const isAnswered = open && before.at(-1)?.event.type === "step_end" &&
            before.at(-1)?.event.finishReason === "stop";
          const other = new Player();
          other.takeOver();
          const approvals = { rules: ALLOW_EVERYTHING, unknownOutcome };
          const options = { policy, tools: other.tools, approvals };
          const found = await scriptedSessions({ store: copy, ...options }).get(session.id);
          const after: typeof before = JSON.parse(
            JSON.stringify(await Array.fromAsync(found.events.read())),
          );
          if (!open || isAnswered) assertEquals(await copy.readEvents(session.id), before, "reading wrote");
          else assertEquals(await copy.readEvents(session.id), after);
          assertEquals(after.slice(0, before.length), before);
          assertEquals(after.map(({ number }) => number), after.map((_, index) => index + 1));
          assertEquals([unpaired(found.history), other.errors], [[], []]);
          const added = after.slice(before.length).map(({ event }) => event);
          const count = (type: string) => added.filter((event) => event.type === type).length;
          if (open) {
            assertEquals([added.at(-1)?.type, added.at(-1)?.reason], ["turn_end", "completed"]);
            assertEquals([count("turn_start"), count("turn_end")], [0, 1]);
            assertEquals(count("turn_resumed"), isAnswered ? 0 : 1);
          } else assertEquals(added, []);
          const accepted = player.accepted.filter(({ writes: by }) => by <= writes);
          for (const { text } of accepted) assert(userMessages(found).includes(text));

          const again = await scriptedSessions({ store: copy, ...options }).get(session.id);
          assertEquals(snapshot(again), snapshot(found));
          await other.play(again, "go on");
          assertEquals((await copy.readEvents(session.id)).at(-1)?.event.reason, "completed");
          assertEquals([other.errors, unpaired(again.history)], [[], []]);
        }
      },
    ),
    { numRuns: cases(6) },
  );
});

function isOpen(stored: readonly { readonly event: { readonly type: string } }[]): boolean {
  const types = stored.map(({ event }) => event.type);
  return types.lastIndexOf("turn_start") > types.lastIndexOf("turn_end");
}

Deno.test("Sessions.get() continues a turn with the bytes of the earlier requests", async () => {
  const store = recordedStore();
  const player = new Player();
  const { tools } = player;
  const session = await makeSession(scriptedSessions({ store, tools }));
  const read = { tool: "read", outcome: "text", size: 100 } as const;
  const huge = { tool: "act", outcome: "text", size: 40_000 } as const;
  const quiet = { steer: [], cancels: false, fails: false, finish: "stop" } as const;
  await player.play(session, "look", [{ ...quiet, calls: [read] }, { ...quiet, calls: [huge, read] }]);
  const last = player.requests.at(-1)!;
  assert(last.length < 40_000);
  const whole = (JSON.parse(last) as { messages: unknown[] }).messages;
  let compared = 0;
  for (let writes = 1; writes <= store.writes; writes++) {
    const copy = await store.upTo(writes);
    const other = new Player();
    other.takeOver();
    const again = await scriptedSessions({ store: copy, tools: other.tools }).get(session.id);
    await Array.fromAsync(again.events.read());
    const { messages = [] } = JSON.parse(other.requests[0] ?? "{}") as { messages?: unknown[] };
    if (JSON.stringify(messages).includes("interrupted")) continue;
    assertEquals(messages, whole.slice(0, messages.length));
    compared += messages.length > 0 ? 1 : 0;
  }
  assert(compared > 3, `${compared}`);
});

Deno.test("Sessions retain a few idle sessions in memory, and load an evicted one again", async () => {
  const store = memoryStore();
  const sessions = scriptedSessions({ store });
  const player = new Player();
  const refs: WeakRef<object>[] = [];
  const snapshots: string[] = [];
  const ids: string[] = [];
  for (let index = 0; index < 30; index++) {
    const session = await makeSession(sessions);
    await player.play(session, `turn ${index}`);
    snapshots.push(snapshot(session));
    refs.push(new WeakRef(session));
    ids.push(session.id);
  }
  await player.play(await sessions.get(ids[0]!), "again");
  await collectGarbage();
  const retained = refs.flatMap((ref, index) => ref.deref() ? [index] : []);
  assertEquals(retained.length <= 17 && retained.includes(29), true, `${retained}`);
  assertEquals(retained.includes(5), false);
  assertEquals(snapshot(await sessions.get(ids[5]!)), snapshots[5]);
});

async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // Objects that a job has dereferenced live until its end.
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimeout(resolve, 0);
  await promise;
  collect();
}

Deno.test("Sessions.get() returns one object for one session, however many others are requested meanwhile", async () => {
  const sessions = scriptedSessions({ store: memoryStore() });
  const held = await makeSession(sessions);
  for (let index = 0; index < 40; index++) await makeSession(sessions);
  assertStrictEquals(await sessions.get(held.id), held);
});

const MINUTE_MS = 60_000;

Deno.test("Sessions.expire() deletes sessions that were idle for so long, and no running one", async () => {
  let nowMs = 0;
  const now = () => nowMs;
  const { model, requested } = silentModel();
  const store = memoryStore({ now });
  const sessions = scriptedSessions({ store, now, model: () => model });
  const [running, held, loaded] = [
    await makeSession(sessions),
    await makeSession(sessions),
    await makeSession(sessions),
  ];
  await sessions.create([{}]);
  await running.start({ input: "q" });
  await requested;
  nowMs = MINUTE_MS;
  await loaded.start({ input: "q" }).then(({ cancel, done }) => (cancel(), done));
  await sessions.create([{}]);
  const ids = async () => (await store.listSessions()).map(({ id }) => id);
  assertEquals([await sessions.expire(MINUTE_MS + 1), (await ids()).length], [0, 5]);
  assertEquals([await sessions.expire(MINUTE_MS), held.isGone, running.isGone], [2, true, false]);
  assertEquals((await ids()).slice(1), [loaded.id, running.id]);
  await running.cancel();
  nowMs = 5 * MINUTE_MS;
  assertEquals([await sessions.expire(MINUTE_MS), await ids()], [3, []]);
});

Deno.test("agentHandler() starts turns in many sessions at once, and recovers none that runs", async () => {
  const handler = agent(scriptedModel(Array(40).fill({ content: "a" })), { maxRunningTurns: 40 });
  const sessions = await Promise.all(Array.from({ length: 40 }, () => newSession(handler)));
  const turns = await Promise.all(sessions.map((session) => turn(handler, session, "q")));
  for (const [index, seen] of turns.entries()) {
    const ends = seen.flatMap(({ event }) => event.type === "turn_end" ? [event.reason] : []);
    assertEquals(ends, ["completed"]);
    assertEquals(await events(await handler.fetch(request("GET", `${sessions[index]}/events`))), seen);
  }
});

Deno.test("SessionRegistry.list() returns the same for sessions that aren't loaded", async () => {
  const store = memoryStore();
  const sessions = scriptedSessions({ store });
  const player = new Player();
  for (let index = 0; index < 3; index++) {
    const session = await makeSession(sessions, { metadata: { index: `${index}` } });
    if (index > 0) await player.play(session, "q");
  }
  const reported = async (all: typeof sessions) => (await new SessionRegistry([all]).list())?.sessions ?? [];
  const listed = await reported(sessions);
  assertEquals(await reported(scriptedSessions({ store })), listed);
  assertEquals(
    listed.map((session) => "metadata" in session && session.metadata["index"]),
    ["2", "1", "0"],
  );
  const loaded = await Promise.all(listed.map(async ({ id }) => sessionBody((await sessions.get(id)).row)));
  assertEquals(listed, loaded);
});

Deno.test("Sessions: the gateway's sessions are not the agent's, and don't count for its limit", async () => {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "gateway", id: "theirs", createdAtMs: 1, settings: {} }]);
  const sessions = scriptedSessions({ store, maxSessions: 1 });
  const { id } = await makeSession(sessions);
  await assertRejects(() => sessions.get("theirs"), HttpError, "there is no such session");
  const registry = new SessionRegistry([sessions]);
  assertEquals([await registry.open("theirs"), await registry.list({ after: "theirs" })], [
    undefined,
    undefined,
  ]);
  assertEquals((await registry.list())?.sessions.map((session) => session.id), [id]);
  assertEquals(await registry.list({ kind: "gateway" }), { sessions: [], hasMore: false });
  assertEquals((await registry.overview()).groups.planned.sessions, 1);
  await assertRejects(() => makeSession(sessions), HttpError, "1 of at most 1 are stored");
  assertEquals(await sessions.expire(-1e15), 1);
  assertEquals((await store.listSessions()).map(({ id }) => id), ["theirs"]);
});

Deno.test("Sessions.delete() removes a session and ends its readers", async () => {
  const store = memoryStore();
  const sessions = scriptedSessions({ store });
  const session = await makeSession(sessions);
  await new Player().play(session, "q");
  const slow = session.events.read();
  await slow.next();
  const held = session.events.read();
  await sessions.delete(session);
  assertEquals(await store.countSessions(), 0);
  await assertRejects(() => sessions.get(session.id), HttpError, "there is no such session");
  await assertRejects(() => readAll(held), HttpError, `session ${session.id} was deleted`);
  await slow.return();
});

Deno.test("agentHandler() starts every turn with its notice, once", async () => {
  const model = scriptedModel([
    { tool_calls: [{ id: "1", type: "function", function: { name: "echo", arguments: '{"text":"a"}' } }] },
    { content: "a" },
    { content: "b" },
  ]);
  const handler = agent(model, { notice: "a demo model answers" });
  const session = await newSession(handler);
  for (const input of ["one", "two"]) {
    const warnings = (await turn(handler, session, input)).filter(({ event }) => event.type === "warning");
    assertEquals(warnings.map(({ event }) => event), [
      { type: "warning", message: "a demo model answers" },
    ]);
  }
});
