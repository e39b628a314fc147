import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import { StoreError } from "@tare/session";
import {
  type NextState,
  SessionRecords,
  stateRecords,
  type StateUpdate,
  type StoredState,
} from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";

const BASIS = { group: "planned", agent: "a", title: "Hello.", days: {} } as const;
const entry = (number: number) => ({ number, text: `Entry ${number}. `.repeat(20) });

const bytesOf = ({ records }: StateUpdate) =>
  JSON.stringify(records.filter(({ type }) => type === "state" || type === "archive")).length;

async function newStore() {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  const commits: string[] = [];
  const session = new SessionRecords(store, "s");
  let stored = SessionRecords.NOTHING;
  const write = async (next: Partial<NextState>, before: StoredState = stored) => {
    const { records, after } = session.change(before, { ...BASIS, ...next });
    await store.commit(records);
    commits.push(records.map((one) => one.type === "state" ? one.name : one.type).join(" "));
    stored = after;
  };
  return { store, session, write, commits, stored: () => stored };
}

Deno.test("SessionRecords.change() stores only changes, and a value as a patch of the whole one", async () => {
  const { store, session, write, commits } = await newStore();
  const list = Array.from({ length: 100 }, (_, number) => entry(number));
  const totals = { turns: 1 };
  const days = { "2026-01-31 m": { calls: 1 } };
  const first = { list, at: 1 };
  await write({ value: first, totals, texts: [["00", "text"]] });
  await write({ value: first, totals, texts: [["00", "text"]] });
  await write({ value: first, totals, days });
  await write({ value: { list: [...list, entry(100)], at: 2 }, totals, days });
  const pieces = commits[0]!.split(" ").filter((name) => name === "archive").length - 1;
  assertEquals(commits, [
    `${"archive ".repeat(pieces + 1)}value title totals totals`,
    "",
    "totals",
    "patch",
  ]);
  const { refs, whole: _, ...read } = await session.read();
  assertEquals(read, { title: "Hello.", totals, value: { list: [...list, entry(100)], at: 2 } });
  assertEquals(refs.size, pieces);
  const all = await store.readTotals({ from: "", to: "9" });
  assertEquals(all.map(({ day, totals }) => [day, totals]), [
    ["", { calls: 1, sessions: 1 }],
    ["2026-01-31", { calls: 1 }],
  ]);
});

Deno.test("SessionRecords.change() stores a much changed value whole, without stored texts", async () => {
  const { session, write, commits } = await newStore();
  const list = Array.from({ length: 100 }, (_, number) => entry(number));
  await write({ value: { list } });
  const more = { list: [...list, ...list] };
  await write({ value: more });
  const archived = commits.map((commit) => commit.split(" ").filter((name) => name === "archive").length);
  assertEquals([archived[1]! > 0, archived[1]! <= archived[0]! + 1, commits[1]!.endsWith("value")], [
    true,
    true,
    true,
  ]);
  assertEquals((await session.read()).value, more);
});

Deno.test("SessionRecords.read() ignores a patch of a value that was replaced", async () => {
  const { session, write, stored } = await newStore();
  await write({ value: { at: 1 } });
  await write({ value: { at: 2 } });
  await write({ value: { at: 3 } }, { ...stored(), whole: undefined });
  assertEquals((await session.read()).value, { at: 3 });
});

Deno.test("SessionRecords writes patches of a growing value, and read() returns its newest version", async () => {
  const { store, session } = await newStore();
  let before = SessionRecords.NOTHING;
  let list: readonly string[] = Array.from({ length: 500 }, (_, at) => `entry ${at * 7919}`);
  const sizes: number[] = [];
  for (let version = 0; version < 60; version++) {
    list = [...list, `more ${version * 7907}`.repeat(9)];
    const value = { list, version, ...(version % 2 === 0 && { even: true }) };
    const change = session.change(before, { ...BASIS, value });
    sizes.push(bytesOf(change));
    await store.commit(change.records);
    before = change.after;
    assertEquals((await session.read()).value, value);
  }
  const mean = sizes.slice(1).reduce((sum, size) => sum + size, 0) / 59;
  assertLess(mean, 0.6 * sizes[0]!);
});

Deno.test("SessionRecords writes a value whole after a commit whose outcome is unknown", async () => {
  for (const isDone of [true, false]) {
    const { store, session } = await newStore();
    const next = (version: number) => ({
      ...BASIS,
      value: { version, text: "x".repeat(9_000 * version) },
    });
    const first = session.change(SessionRecords.NOTHING, next(1));
    await store.commit(first.records);
    const lost = session.change(first.after, next(2));
    if (isDone) await store.commit(lost.records);
    const { value } = next(2);
    const again = session.change(first.after, { ...BASIS, value: { ...value, version: 3 } });
    await store.commit(again.records);
    assertEquals((await session.read()).value, { ...value, version: 3 });
  }
});

Deno.test("SessionRecords.commit() holds the session for one commit, unless others have held it since", async () => {
  const memory = sharedMemory();
  const [{ store }, { store: other }] = [memory.open(), memory.open()];
  const [own, others] = [new SessionRecords(store, "s"), new SessionRecords(other, "s")];
  assertEquals([await own.inspect(), await own.ifThere(() => store.readState("s", "at"))], [
    undefined,
    undefined,
  ]);
  const made = { type: "session", kind: "gateway", id: "s", createdAtMs: 0, settings: {} } as const;
  const fence = (await own.commit(0, [made]))!;
  assertEquals(await others.inspect(), { fence, holder: "none", lastEvent: 0 });
  const later = (await others.commit(fence, stateRecords("s", { at: 1 })))!;
  assertEquals([later > fence, await own.commit(fence, stateRecords("s", { at: 2 }))], [true, undefined]);
  assertEquals([await store.readState("s", "at"), (await own.inspect())?.fence], [1, later]);
  assert(await other.shared.hold("s"));
  const error = await assertRejects(() => own.delete(), StoreError, "another server holds it");
  assertEquals([error.code, (await own.inspect())?.holder], ["fenced", "other"]);
  await other.shared.release("s");
  await own.delete();
  await own.delete();
  assertEquals(await own.inspect(), undefined);
});

Deno.test("SessionRecords of an unshared store have no holder and ignore the fencing number", async () => {
  const { session } = await newStore();
  assertEquals(await session.commit(0, stateRecords("s", { at: 1 })), 0);
  assertEquals(await session.inspect(), { fence: 0, holder: "none", lastEvent: 0 });
});
