import { assertEquals, assertLess } from "@std/assert";
import { type StateUpdate, StateWriter } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";

const bytesOf = ({ records }: StateUpdate) =>
  JSON.stringify(records.filter(({ type }) => type === "state" || type === "archive")).length;

const session = { id: "s", group: "planned", agent: null } as const;

async function newStore() {
  const store = memoryStore({ now: () => 0 });
  await store.commit([{ type: "session", kind: "gateway", id: "s", createdAtMs: 0, settings: {} }]);
  return store;
}

Deno.test("StateWriter writes of a value that grows a patch, and read() gives back its newest version", async () => {
  const store = await newStore();
  const writer = new StateWriter(session);
  let before = StateWriter.NOTHING;
  let list: readonly string[] = Array.from({ length: 500 }, (_, at) => `entry ${at * 7919}`);
  const sizes: number[] = [];
  for (let version = 0; version < 60; version++) {
    list = [...list, `more ${version * 7907}`.repeat(9)];
    const value = { list, version, ...(version % 2 === 0 && { even: true }) };
    const change = writer.change(before, { title: "", value, days: {} });
    sizes.push(bytesOf(change));
    await store.commit(change.records);
    before = change.after;
    assertEquals((await StateWriter.read(store, "s")).value, value);
  }
  const mean = sizes.slice(1).reduce((sum, size) => sum + size, 0) / 59;
  assertLess(mean, 0.6 * sizes[0]!);
});

Deno.test("StateWriter writes a value whole after a commit whose outcome is unknown", async () => {
  for (const isDone of [true, false]) {
    const store = await newStore();
    const writer = new StateWriter(session);
    const next = (version: number) => ({
      title: "",
      value: { version, text: "x".repeat(9_000 * version) },
      days: {},
    });
    const first = writer.change(StateWriter.NOTHING, next(1));
    await store.commit(first.records);
    // Too large for a patch, so that it is stored whole.
    const lost = writer.change(first.after, next(2));
    if (isDone) await store.commit(lost.records);
    const { value } = next(2);
    const again = writer.change(first.after, { title: "", value: { ...value, version: 3 }, days: {} });
    await store.commit(again.records);
    assertEquals((await StateWriter.read(store, "s")).value, { ...value, version: 3 });
  }
});
