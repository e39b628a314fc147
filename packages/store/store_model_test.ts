import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { join } from "@std/path";
import { archiveRef } from "@tare/prune";
import {
  type Claim,
  openStore,
  type SessionRecord,
  type SessionStore,
  type StoredDocument,
  type StoredEvent,
} from "@tare/store";
import { withFolder } from "./fixture_test.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

interface ModelSession {
  readonly record: SessionRecord;
  readonly events: StoredEvent[];
  readonly state: Map<string, unknown>;
  readonly texts: Map<string, string>;
}

interface ModelKey {
  readonly bodyHash: string;
  process: number;
  touchedAtMs: number;
  done?: { readonly response: unknown; readonly session: ModelSession | undefined };
}

/** The store as maps and arrays, as plainly as it can be said. `restart` stands for a new process. */
function modelStore(now: () => number): SessionStore & { readonly restart: () => void } {
  const sessions = new Map<string, ModelSession>();
  const keys = new Map<string, ModelKey>();
  const documents = new Map<string, StoredDocument>();
  let process = 0;
  const named = (id: string) => {
    const session = sessions.get(id);
    if (!session) throw new Error(`Cannot find session "${id}": there is no such session`);
    return session;
  };
  const appendEvents: SessionStore["appendEvents"] = (id, events, { state = {} } = {}) => {
    const session = named(id);
    for (const event of events) {
      session.events.push({ number: session.events.length + 1, event: structuredClone({ ...event }) });
    }
    for (const [name, value] of Object.entries(state)) session.state.set(name, value);
    return session.events.length;
  };
  return {
    createSession(record) {
      if (sessions.has(record.id)) {
        throw new Error(`Cannot create session "${record.id}": there is one of this id`);
      }
      sessions.set(record.id, { record, events: [], state: new Map(), texts: new Map() });
    },
    getSession: (id) => sessions.get(id)?.record,
    listSessions({ limit = 100, before } = {}) {
      const records = [...sessions.values()].map(({ record }) => record).reverse();
      const from = before === undefined ? 0 : records.indexOf(named(before).record) + 1;
      return records.slice(from, from + limit);
    },
    countSessions: () => sessions.size,
    deleteSession(id) {
      const session = sessions.get(id);
      for (const [name, { sessionId }] of documents) if (sessionId === id) documents.delete(name);
      for (const [name, { done }] of keys) if (session && done?.session === session) keys.delete(name);
      return sessions.delete(id);
    },
    appendEvents,
    readEvents: (id, { after = 0, types, limit = Infinity } = {}) =>
      named(id).events.filter(({ number, event }) => number > after && (types?.includes(event.type) ?? true))
        .slice(0, limit),
    lastEvent: (id) => named(id).events.length,
    saveState: (id, state) => void appendEvents(id, [], { state }),
    readState: (id, name) => named(id).state.get(name),
    archive: (id) => ({
      async put(content) {
        const ref = await archiveRef(content);
        named(id).texts.set(ref, content);
        return ref;
      },
      get: (ref) => Promise.resolve(sessions.get(id)?.texts.get(ref)),
      delete: (ref) => Promise.resolve(void sessions.get(id)?.texts.delete(ref)),
    }),
    idempotency: {
      claim({ scope, key, bodyHash }): Claim {
        for (const [name, kept] of keys) {
          if (kept.touchedAtMs <= now() - DAY_MS && (kept.done || kept.process !== process)) {
            keys.delete(name);
          }
        }
        const kept = keys.get(`${scope} ${key}`);
        if (!kept) {
          keys.set(`${scope} ${key}`, { bodyHash, process, touchedAtMs: now() });
          return { state: "new" };
        }
        if (kept.bodyHash !== bodyHash) return { state: "mismatch" };
        if (kept.done) return { state: "done", response: kept.done.response };
        if (kept.process === process) return { state: "running" };
        Object.assign(kept, { process, touchedAtMs: now() });
        return { state: "interrupted" };
      },
      complete({ scope, key }, { response, sessionId }) {
        const session = sessionId === undefined ? undefined : named(sessionId);
        const kept = keys.get(`${scope} ${key}`);
        if (!kept || kept.done || kept.process !== process) {
          throw new Error(`Cannot complete idempotency key "${key}" of ${scope}: it isn't claimed`);
        }
        Object.assign(kept, { done: { response, session }, touchedAtMs: now() });
      },
      release({ scope, key }) {
        const kept = keys.get(`${scope} ${key}`);
        if (kept && !kept.done && kept.process === process) keys.delete(`${scope} ${key}`);
      },
    },
    documents: {
      put(document) {
        named(document.sessionId);
        documents.set(`${document.kind} ${document.id}`, document);
      },
      get: (kind, id) => documents.get(`${kind} ${id}`),
    },
    close() {},
    restart: () => void process++,
  };
}

type Act = (store: SessionStore) => unknown;
/** Something that is done with a store, or between two uses of it. */
type Step = Act | "restart" | "a day passes" | "time passes";

const id = fc.constantFrom("a", "b", "c");
const few = fc.constantFrom("x", "y");
const json = fc.jsonValue({ maxDepth: 1 }).map((value): unknown => JSON.parse(JSON.stringify(value)));
const event = fc.record({ type: few, value: json });
const state = fc.dictionary(few, json, { noNullPrototype: true });
const text = fc.constantFrom("", "one", "two", "\ud83d", "long ".repeat(2000));

const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({ id, createdAtMs: fc.nat(), settings: json }).map((record): Act => (store) =>
    store.createSession(record)
  ),
  id.map((id): Act => (store) => store.getSession(id)),
  fc.record({ limit: fc.nat(3), before: id }, { requiredKeys: [] }).map((options): Act => (store) =>
    store.listSessions(options)
  ),
  id.map((id): Act => (store) => store.deleteSession(id)),
  {
    arbitrary: fc.tuple(id, fc.array(event, { maxLength: 4 }), state).map(
      ([id, events, state]): Act => (store) => store.appendEvents(id, events, { state }),
    ),
    weight: 4,
  },
  fc.tuple(
    id,
    fc.record({ after: fc.nat(4), types: fc.subarray(["x", "y"]), limit: fc.nat(3) }, {
      requiredKeys: [],
    }),
  ).map(([id, options]): Act => (store) => store.readEvents(id, options)),
  id.map((id): Act => (store) => store.lastEvent(id)),
  fc.tuple(id, state).map(([id, state]): Act => (store) => store.saveState(id, state)),
  fc.tuple(id, few).map(([id, name]): Act => (store) => store.readState(id, name)),
  fc.tuple(id, text).map(([id, text]): Act => (store) => store.archive(id).put(text)),
  fc.tuple(id, text).map(([id, text]): Act => async (store) => store.archive(id).get(await archiveRef(text))),
  fc.tuple(id, text).map(([id, text]): Act => async (store) =>
    store.archive(id).delete(await archiveRef(text))
  ),
  fc.tuple(few, few).map(([key, bodyHash]): Act => ({ idempotency }) =>
    idempotency.claim({ scope: "s", key, bodyHash })
  ),
  fc.tuple(few, json, fc.option(id, { nil: undefined })).map(([key, response, sessionId]): Act => (store) =>
    store.idempotency.complete({ scope: "s", key }, { response, ...(sessionId && { sessionId }) })
  ),
  few.map((key): Act => ({ idempotency }) => idempotency.release({ scope: "s", key })),
  fc.record({ kind: few, id: few, sessionId: id, value: json }).map((document): Act => (store) =>
    store.documents.put(document)
  ),
  fc.tuple(few, few).map(([kind, id]): Act => (store) => store.documents.get(kind, id)),
);

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof<[fc.WeightedArbitrary<Step>, fc.WeightedArbitrary<Step>]>(
    { arbitrary: act, weight: 15 },
    { arbitrary: fc.constantFrom("restart", "a day passes", "time passes"), weight: 1 },
  ),
  { maxLength: 80, size: "max" },
);

/** What a step gave, or how it was refused. */
async function outcome(act: () => unknown): Promise<unknown> {
  try {
    return { gave: await act() };
  } catch (error) {
    return { refused: error instanceof Error && error.message };
  }
}

Deno.test("openStore() does what plain maps and arrays would do, restarts included", () =>
  withFolder(async (folder) => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (steps) => {
        const path = join(folder, `${runs++}.db`);
        let nowMs = 0;
        const now = () => nowMs;
        const model = modelStore(now);
        let store = openStore(path, { now });
        for (const id of ["a", "b"]) {
          for (const one of [store, model]) one.createSession({ id, createdAtMs: 0, settings: null });
        }
        for (const step of steps) {
          if (step === "restart") {
            store.close();
            store = openStore(path, { now });
            model.restart();
          } else if (typeof step === "string") {
            nowMs += step === "a day passes" ? DAY_MS : DAY_MS / 3;
          } else {
            const expected = await outcome(() => step(model));
            assertEquals(await outcome(() => step(store)), expected);
          }
        }
        store.close();
      }),
      { numRuns: 60 },
    );
  }));
