import { assertEquals, assertStrictEquals } from "@std/assert";
import type { Store } from "@tare/session";
import { SessionRegistry } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";
import fc, { cases } from "../../../tests/cases.ts";
import { echo } from "../fixture_test.ts";
import { scriptedSessions, snapshot, unpaired } from "../script_fixture_test.ts";
import { HttpError } from "../http/http_error.ts";
import type { RunningTurn } from "./session_types.ts";
import type { Sessions } from "./sessions.ts";

function shuffled(store: Store, scheduler: fc.Scheduler): Store {
  const late =
    <Args extends readonly unknown[], T>(name: string, act: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      await scheduler.schedule(Promise.resolve(), `${name} acts`);
      const result = await act(...args);
      await scheduler.schedule(Promise.resolve(), `${name} answers`);
      return result;
    };
  return {
    ...store,
    commit: late("commit", store.commit),
    getSession: late("getSession", store.getSession),
    listSessions: late("listSessions", store.listSessions),
    countSessions: late("countSessions", store.countSessions),
    deleteSession: late("deleteSession", store.deleteSession),
    readEvents: late("readEvents", store.readEvents),
    lastEvent: late("lastEvent", store.lastEvent),
    readState: late("readState", store.readState),
  };
}

function model(): Parameters<typeof scriptedSessions>[0]["model"] {
  return () =>
    async function* ({ messages }) {
      await Promise.resolve();
      const call = {
        id: "c",
        type: "function",
        function: { name: "echo", arguments: '{"text":"x"}' },
      } as const;
      const calls = messages.at(-1)?.role === "tool" ? undefined : [call];
      yield {
        type: "completed",
        message: { role: "assistant", content: "a", ...(calls && { tool_calls: calls }) },
        finishReason: calls ? "tool_calls" : "stop",
        usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
      };
    };
}

type Act = "start" | "steer" | "continue" | "cancel" | "show" | "list" | "delete";

interface Done {
  readonly act: Act;
  readonly input: string;
  readonly turn?: RunningTurn | undefined;
  readonly refused?: number;
}

async function act(sessions: Sessions, id: string, [act, input]: readonly [Act, string]): Promise<Done> {
  try {
    if (act === "list") return (await new SessionRegistry([sessions]).list(), { act, input });
    const session = await sessions.get(id);
    switch (act) {
      case "start":
        return { act, input, turn: await session.start({ input }) };
      case "steer":
        return { act, input, turn: await session.steerOrStart({ input }) };
      case "continue":
        return { act, input, turn: await session.start({}) };
      case "cancel":
        await session.cancel();
        break;
      case "delete":
        await sessions.delete(session);
        break;
      case "show":
        session.prompt.quote(session.history);
    }
    return { act, input };
  } catch (error) {
    if (error instanceof HttpError) return { act, input, refused: error.status };
    throw error;
  }
}

function options(store: Store) {
  return { store, model: model()!, tools: [echo], policy: "planner" as const };
}

const acts = (...kinds: readonly Act[]) =>
  fc.array(fc.constantFrom(...kinds), { minLength: 2, maxLength: 6 }).map((chosen) =>
    chosen.map((kind, index) => [kind, `input ${index}`] as const)
  );

Deno.test("Sessions: concurrent requests for one session run one after the other", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      acts("start", "steer", "continue", "cancel", "show", "list"),
      fc.boolean(),
      async (scheduler, requested, isLoaded) => {
        const stored = memoryStore();
        const sessions = scriptedSessions(options(shuffled(stored, scheduler)));
        const { id } = (await scheduler.waitFor(sessions.create([{}])))[0]!;
        if (isLoaded) await scheduler.waitFor(sessions.get(id));
        const done = await scheduler.waitFor(Promise.all(requested.map((one) => act(sessions, id, one))));
        await scheduler.waitFor(Promise.all(done.map(({ turn }) => turn?.done)));

        const session = await scheduler.waitFor(sessions.get(id));
        const events = await stored.readEvents(id);
        assertEquals(events.map(({ number }) => number), events.map((_, index) => index + 1));
        // One turn at a time, each complete.
        const bounds = events.map(({ event }) => event.type).filter((type) => /^turn_/.test(type));
        assertEquals(bounds, bounds.map((_, index) => index % 2 === 0 ? "turn_start" : "turn_end"));
        assertEquals([bounds.length % 2, session.isRunning], [0, false]);
        assertEquals(done.filter(({ turn }) => turn).length, bounds.length / 2);
        // Accepted inputs are stored once; refused ones aren't.
        const texts = session.history.filter(({ role }) => role === "user").map(({ content }) => content);
        const accepted = done.filter(({ act, refused }) => /start|steer/.test(act) && refused === undefined);
        assertEquals(texts.toSorted(), accepted.map(({ input }) => input).toSorted());
        for (const { refused } of done) assertEquals([undefined, 409].includes(refused), true);
        assertEquals(unpaired(session.history), []);
        assertEquals(snapshot(await scriptedSessions(options(stored)).get(id)), snapshot(session));
        assertEquals(await stored.readState(id, "steering") ?? [], []);
      },
    ),
    { numRuns: cases(150) },
  );
});

Deno.test("Sessions: a session is deleted completely and once under concurrent requests", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      acts("start", "steer", "cancel", "show", "list", "delete"),
      async (scheduler, requested) => {
        const stored = memoryStore();
        const sessions = scriptedSessions(options(shuffled(stored, scheduler)));
        const { id } = (await scheduler.waitFor(sessions.create([{}])))[0]!;
        const all = [...requested, ["delete", ""] as const];
        const done = await scheduler.waitFor(Promise.all(all.map((one) => act(sessions, id, one))));
        await scheduler.waitFor(Promise.all(done.map(({ turn }) => turn?.done)));
        const deleted = done.filter(({ act, refused }) => act === "delete" && refused === undefined);
        assertEquals([deleted.length, await stored.countSessions()], [1, 0]);
        for (const { refused } of done) assertEquals([undefined, 404, 409].includes(refused), true);
        const late = await scheduler.waitFor(act(sessions, id, ["start", "late"]));
        assertEquals(late.refused, 404);
      },
    ),
    { numRuns: cases(150) },
  );
});

Deno.test("Sessions.get() returns one object to concurrent callers, and loads it once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), async (scheduler) => {
      const stored = memoryStore();
      let loads = 0;
      const sessions = scriptedSessions(options(shuffled({
        ...stored,
        getSession: (id) => (loads += 1, stored.getSession(id)),
      }, scheduler)));
      const { id } = (await scheduler.waitFor(sessions.create([{}])))[0]!;
      const given = await scheduler.waitFor(Promise.all(Array.from({ length: 4 }, () => sessions.get(id))));
      for (const session of given) assertStrictEquals(session, given[0]);
      assertEquals(loads, 1);
    }),
    { numRuns: cases(20) },
  );
});

Deno.test("Sessions.create() doesn't exceed the limit under concurrent requests", async () => {
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), async (scheduler) => {
      const store = memoryStore();
      const sessions = scriptedSessions({ ...options(shuffled(store, scheduler)), maxSessions: 3 });
      const making = Array.from({ length: 5 }, () => sessions.create([{}]));
      const made = await scheduler.waitFor(Promise.allSettled(making));
      assertEquals(made.filter(({ status }) => status === "fulfilled").length, 3);
      assertEquals(await store.countSessions(), 3);
    }),
    { numRuns: cases(20) },
  );
});
