/** Random operations on a store, compared with plain maps. @module */
import { assertEquals } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { archiveRef } from "@tare/prune";
import type { Store } from "@tare/session";
import type { StoredTotalsRow, StoreRecord } from "@tare/session/internal";
import { memoryPlace } from "../../../tests/shared_memory.ts";
import { DAY_MS, type OpenStore, type Place, sessionRecord } from "./store_suite_fixture_test.ts";

export const inMemory: Place = (test) => {
  const open = memoryPlace();
  return test((options) => Promise.resolve(open(options)));
};

type Act = (store: Store) => unknown;
type Step = Act | "restart" | "a day passes" | "time passes";

const id = fc.constantFrom("a", "b", "c");
const kind = fc.constantFrom("agent" as const, "gateway" as const);
const few = fc.constantFrom("x", "y");
const name = fc.constantFrom("x", "totals", "title");
const by = fc.constantFrom("alice", "bob");
const day = fc.constantFrom("", "2026-01-31", "2026-02-01");
const totals = fc.dictionary(fc.constantFrom("usd", "calls"), fc.integer({ min: -9, max: 9 }));
const json = fc.jsonValue({ maxDepth: 1 }).map((value): unknown => JSON.parse(JSON.stringify(value)));
const event = fc.record({ type: few, value: json });
const text = fc.constantFrom("", "one", "two", "\ud83d", "long ".repeat(2000));
const archived = await Promise.all(
  ["", "one", "\ud83d"].map(async (content) => ({ content, ref: await archiveRef(content) })),
);

/** A record to be committed. Events are `off` numbers after the last. */
const record: fc.Arbitrary<StoreRecord & { readonly off?: number }> = fc.oneof(
  fc.record(
    {
      type: fc.constant("session" as const),
      id,
      kind,
      createdAtMs: fc.nat(),
      settings: json,
      parent: id,
      by,
    },
    { requiredKeys: ["type", "id", "kind", "createdAtMs", "settings"] },
  ),
  {
    arbitrary: fc.record({
      type: fc.constant("events" as const),
      sessionId: id,
      after: fc.constant(0),
      events: fc.array(event, { maxLength: 4 }),
      off: fc.constantFrom(...Array.from({ length: 15 }, () => 0), 1, -1),
    }),
    weight: 4,
  },
  fc.record({ type: fc.constant("state" as const), sessionId: id, name, value: json }),
  fc.record({
    type: fc.constant("totals" as const),
    sessionId: id,
    added: fc.array(fc.record({ day, about: few, totals }), { maxLength: 2 }),
  }),
  fc.record({ type: fc.constant("names" as const), sessionId: id, names: fc.subarray(["x", "y", "\ud83d"]) }),
  fc.record({ type: fc.constant("document" as const), kind: few, id: few, sessionId: id, value: json }),
  fc.record({ type: fc.constant("document" as const), kind: few, id: few, value: json }),
  fc.record({ kind: few, id: few, value: few, stored: few, isNew: fc.boolean() }).map((
    { stored, isNew, ...document },
  ) => ({
    type: "document" as const,
    ...document,
    replaces: isNew ? null : { ...document, value: stored },
  })),
  fc.record({ type: fc.constant("document" as const), kind: few, id: few, value: few }),
  fc.record({ type: fc.constant("delete_document" as const), kind: few, id: few }),
  fc.record({ text: fc.constantFrom(...archived), sessionId: id }).map(({ text, sessionId }) => ({
    type: "archive" as const,
    sessionId,
    ...text,
  })),
  fc.record({
    type: fc.constant("delivery" as const),
    ...{ id: few, receiver: few, sessionId: id, value: json, dueInMs: fc.constantFrom(0, DAY_MS) },
  }, { requiredKeys: ["type", "id", "receiver", "value", "dueInMs"] }),
  fc.record({
    type: fc.constant("delivery_attempt" as const),
    ...{ id: few, claim: fc.nat(2), value: json, dueInMs: fc.constantFrom(0, DAY_MS) },
  }, { requiredKeys: ["type", "id", "claim", "value"] }),
  fc.record({ type: fc.constant("delete_deliveries" as const), receiver: few }),
  fc.record({
    type: fc.constant("response" as const),
    scope: fc.constant("s"),
    key: few,
    response: json,
    sessionId: id,
  }, { requiredKeys: ["type", "scope", "key", "response"] }),
);

async function commitAll(store: Store, records: readonly (StoreRecord & { readonly off?: number })[]) {
  const last = new Map<string, number>();
  for (const id of ["a", "b", "c"]) last.set(id, await store.lastEvent(id).catch(() => 0));
  await store.commit(records.map(({ off = 0, ...record }) => {
    if (record.type !== "events") return record;
    const after = (last.get(record.sessionId) ?? 0) + off;
    last.set(record.sessionId, after + record.events.length);
    return { ...record, after };
  }));
}

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    arbitrary: fc.array(record, { maxLength: 4, size: "max" }).map((records): Act => (store) =>
      commitAll(store, records)
    ),
    weight: 10,
  },
  id.map((id): Act => (store) => store.getSession(id)),
  fc.record(
    {
      kind,
      limit: fc.nat(3),
      after: id,
      forks: fc.boolean(),
      by,
      search: fc.constantFrom("", "e", "ull", "TRUE"),
    },
    { requiredKeys: [] },
  ).map((options): Act => (store) => store.listSessions(options)),
  fc.record({ from: day, to: day, kind, by }, { requiredKeys: ["from", "to"] }).map(
    (which): Act => async (store) => addedUp(await store.readTotals(which)),
  ),
  id.map((id): Act => (store) => store.deleteSession(id)),
  fc.option(kind, { nil: undefined }).map((kind): Act => (store) => store.countSessions(kind)),
  kind.map((kind): Act => (store) =>
    store.idleSessions({ kind, beforeMs: Number.MAX_SAFE_INTEGER, limit: 9 })
  ),
  fc.shuffledSubarray(["x", "y", "\ud83d", "z"]).map((names): Act => async (store) =>
    (await store.findByName(names)).map(({ id }) => id)
  ),
  fc.tuple(kind, fc.constantFrom(0, DAY_MS, 3 * DAY_MS)).map(([kind, beforeMs]): Act => (store) =>
    store.expireSessions({ kind, beforeMs, maxBytes: Number.MAX_SAFE_INTEGER })
  ),
  fc.tuple(id, fc.subarray(archived)).map(([id, texts]): Act => async (store) =>
    Array.from(await store.readTexts(id, texts.map(({ ref }) => ref))).sort()
  ),
  fc.tuple(
    id,
    fc.record({ after: fc.nat(4), types: fc.subarray(["x", "y"]), limit: fc.nat(3) }, { requiredKeys: [] }),
  ).map(([id, options]): Act => (store) => store.readEvents(id, options)),
  id.map((id): Act => (store) => store.lastEvent(id)),
  fc.tuple(id, name).map(([id, name]): Act => (store) => store.readState(id, name)),
  fc.tuple(id, text).map(([id, text]): Act => (store) => store.archive(id).put(text)),
  fc.tuple(id, text).map(([id, text]): Act => async (store) => store.archive(id).get(await archiveRef(text))),
  fc.tuple(few, few).map(([key, bodyHash]): Act => (store) => store.claimKey({ scope: "s", key, bodyHash })),
  few.map((key): Act => (store) => store.releaseKey({ scope: "s", key })),
  fc.tuple(fc.subarray(["x", "y"]), fc.nat(2), fc.nat(3)).map(([names, most, limit]): Act => (store) =>
    store.claimDeliveries({
      receivers: names.map((receiver) => ({ receiver, limit: most })),
      ...{ limit, forMs: DAY_MS / 2 },
    })
  ),
  few.map((receiver): Act => (store) => store.listDeliveries(receiver)),
  fc.tuple(few, fc.constantFrom(0, DAY_MS), fc.nat(2)).map(([receiver, olderThanMs, keep]): Act => (store) =>
    store.expireDeliveries({ receiver, olderThanMs, keep })
  ),
  fc.tuple(few, few).map(([kind, id]): Act => (store) => store.getDocument(kind, id)),
  few.map((kind): Act => async (store) => (await store.listDocuments(kind)).map(({ id }) => id).sort()),
);

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof<[fc.WeightedArbitrary<Step>, fc.WeightedArbitrary<Step>]>(
    { arbitrary: act, weight: 15 },
    { arbitrary: fc.constantFrom("restart", "a day passes", "time passes"), weight: 1 },
  ),
  { maxLength: 80, size: "max" },
);

function addedUp(
  all: readonly StoredTotalsRow[],
): Readonly<Record<string, Readonly<Record<string, number>>>> {
  const totals: Record<string, Record<string, number>> = {};
  for (const { kind, by = "", day, about, totals: its } of all) {
    const sum = totals[[kind, by, day, about].join()] ??= {};
    for (const [name, more] of Object.entries(its)) sum[name] = (sum[name] ?? 0) + more;
  }
  return totals;
}

async function outcome(act: () => unknown): Promise<unknown> {
  try {
    return { gave: await act() };
  } catch (error) {
    return { refused: error instanceof Error && error.message };
  }
}

export function testLikeMemory(name: string, place: Place): void {
  Deno.test(`${name}: behaves like plain maps under random operations and restarts`, async () => {
    await fc.assert(
      fc.asyncProperty(
        steps,
        (steps) => inMemory((openModel) => place((open) => compare(steps, open, openModel))),
      ),
      { numRuns: cases(60) },
    );
  });
}

async function compare(steps: readonly Step[], ...opens: readonly OpenStore[]): Promise<void> {
  let nowMs = 0;
  const openAll = () => Promise.all(opens.map((open) => open({ now: () => nowMs })));
  let stores = await openAll();
  for (const store of stores) await store.commit([sessionRecord("a"), sessionRecord("b")]);
  for (const step of steps) {
    if (step === "restart") {
      for (const store of stores) await store.close();
      stores = await openAll();
    } else if (typeof step === "string") {
      nowMs += step === "a day passes" ? DAY_MS : DAY_MS / 3;
    } else {
      const [got, expected] = await Promise.all(stores.map((store) => outcome(() => step(store))));
      assertEquals(got, expected);
    }
  }
  for (const store of stores) await store.close();
}
