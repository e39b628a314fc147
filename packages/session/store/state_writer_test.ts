import { assertEquals } from "@std/assert";
import { type NextState, StateWriter, type StoredState } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";

const BASIS = { group: "planned", agent: "a", title: "Hello.", days: {} } as const;
const entry = (number: number) => ({ number, text: `Entry ${number}. `.repeat(20) });

async function newStore() {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  const commits: string[] = [];
  const writer = new StateWriter("s");
  let stored = StateWriter.NOTHING;
  const write = async (next: Partial<NextState>, before: StoredState = stored) => {
    const { records, after } = writer.change(before, { ...BASIS, ...next });
    await store.commit(records);
    commits.push(records.map((one) => one.type === "state" ? one.name : one.type).join(" "));
    stored = after;
  };
  return { store, write, commits, stored: () => stored };
}

Deno.test("StateWriter.change() stores only what has changed, a value as a patch of the one stored whole", async () => {
  const { store, write, commits } = await newStore();
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
    `${"archive ".repeat(pieces + 1)}value title totals sums`,
    "",
    "sums",
    "patch",
  ]);
  const { refs, whole: _, ...read } = await StateWriter.read(store, "s");
  assertEquals(read, { title: "Hello.", totals, value: { list: [...list, entry(100)], at: 2 } });
  assertEquals(refs.size, pieces);
  const sums = await store.readSums({ from: "", to: "9" });
  assertEquals(sums.map(({ day, sums }) => [day, sums]), [
    ["", { calls: 1, sessions: 1 }],
    ["2026-01-31", { calls: 1 }],
  ]);
});

Deno.test("StateWriter.change() stores a value whole that has changed much, but for the texts that are stored", async () => {
  const { store, write, commits } = await newStore();
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
  assertEquals((await StateWriter.read(store, "s")).value, more);
});

Deno.test("StateWriter.read() ignores a patch of a value that was replaced", async () => {
  const { store, write, stored } = await newStore();
  await write({ value: { at: 1 } });
  await write({ value: { at: 2 } });
  await write({ value: { at: 3 } }, { ...stored(), whole: undefined });
  assertEquals((await StateWriter.read(store, "s")).value, { at: 3 });
});
