import { assertEquals, assertRejects } from "@std/assert";
import type { LoopEvent } from "@tare/loop";
import { HttpError } from "../http/http_error.ts";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { EventLog } from "./event_log.ts";
import { newLog } from "../fixture_test.ts";

const warning = (message: string): LoopEvent => ({ type: "warning", message });

async function numbers(log: EventLog, after?: number): Promise<number[]> {
  const seen: number[] = [];
  for await (const { number } of log.read(after)) seen.push(number);
  return seen;
}

Deno.test("EventLog.read() yields the events after a number and ends when the log is closed", async () => {
  const log = await newLog();
  assertEquals(await numbers(log), []);
  await log.append([warning("a")]);
  await log.append([warning("b")]);
  await log.append([warning("c")]);
  assertEquals([await numbers(log), await numbers(log, 1), await numbers(log, 9)], [[1, 2, 3], [2, 3], []]);
});

Deno.test("EventLog.read() lets several readers follow an open log, each at its own pace", async () => {
  const log = await newLog();
  log.open();
  const slow = log.read();
  const fast = numbers(log);
  await log.append([warning("a")]);
  assertEquals((await slow.next()).value, { number: 1, event: warning("a") });
  await log.append([warning("b")]);
  await log.append([warning("c")]);
  log.close();
  assertEquals(await fast, [1, 2, 3]);
  assertEquals((await slow.next()).value, { number: 2, event: warning("b") });
  assertEquals((await slow.next()).value, { number: 3, event: warning("c") });
  assertEquals(await slow.next(), { value: undefined, done: true });
});

Deno.test("EventLog.read() holds one page, however slow its reader is", async () => {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  const reads: Parameters<Store["readEvents"]>[1][] = [];
  const log = new EventLog({
    ...store,
    readEvents(id, options = {}) {
      reads.push(options);
      return store.readEvents(id, options);
    },
  }, { sessionId: "s", last: 0 });
  log.open();
  const slow = log.read();
  await log.append(Array.from({ length: 600 }, (_, index) => warning(`${index}`)));
  for (let number = 1; number <= 256; number++) assertEquals((await slow.next()).value?.number, number);
  assertEquals(reads, [{ after: 0, limit: 256 }]);
  assertEquals((await slow.next()).value?.number, 257);
  assertEquals(reads, [{ after: 0, limit: 256 }, { after: 256, limit: 256 }]);
  log.close();
  const rest: number[] = [];
  for await (const { number } of slow) rest.push(number);
  assertEquals([rest.length, rest[0], rest.at(-1)], [343, 258, 600]);
});

Deno.test("EventLog.read() doesn't read the last commit from the store", async () => {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  let reads = 0;
  const log = new EventLog({
    ...store,
    readEvents: (id, options) => (reads += 1, store.readEvents(id, options)),
  }, { sessionId: "s", last: 0 });
  log.open();
  const following = log.read();
  for (const message of ["a", "b", "c"]) {
    await log.append([warning(message), warning(`${message}2`)]);
    assertEquals((await following.next()).value?.event, warning(message));
    assertEquals((await following.next()).value?.event, warning(`${message}2`));
  }
  assertEquals(reads, 0);
  log.close();
  assertEquals(await following.next(), { value: undefined, done: true });
  // A reader from the start reads earlier events from the store, and one in the middle only later ones.
  assertEquals([await numbers(log), reads], [[1, 2, 3, 4, 5, 6], 1]);
  assertEquals([await numbers(log, 5), await numbers(log, 6), reads], [[6], [], 1]);
});

Deno.test("EventLog.read() reads only other servers' unreported writes from the store, and yields each event once", async () => {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  const reads: Parameters<Store["readEvents"]>[1][] = [];
  const log = new EventLog({
    ...store,
    readEvents: (id, options) => (reads.push(options), store.readEvents(id, options)),
  }, { sessionId: "s", last: 0 });
  log.open();
  const following = log.read();
  const take = async (count: number) => {
    const seen = [];
    while (seen.length < count) seen.push((await following.next()).value?.number);
    return seen;
  };
  const write = async (count: number) => {
    const after = await store.lastEvent("s");
    const events = Array.from({ length: count }, (_, index) => warning(`${after + index + 1}`));
    await store.commit([{ type: "events", sessionId: "s", after, events }]);
    return await store.readEvents("s", { after });
  };
  // Some arrive before the reader gets to them, one is reported twice, and once nothing new is reported.
  const first = await write(2);
  log.reach(2, first);
  log.reach(4, [...first.slice(1), ...await write(2)]);
  log.reach(4);
  assertEquals([await take(4), reads, log.newest], [[1, 2, 3, 4], [], warning("4")]);
  await write(1);
  log.reach(5);
  assertEquals([await take(1), reads, log.newest], [[5], [{ after: 4, limit: 1 }], undefined]);
  await write(1);
  log.reach(7, await write(1));
  assertEquals([await take(2), reads.slice(1)], [[6, 7], [{ after: 5, limit: 2 }]]);
  log.reach(8, await write(1));
  log.close();
  assertEquals([await take(1), reads.length], [[8], 2]);
  assertEquals(await following.next(), { value: undefined, done: true });
});

Deno.test("EventLog.append() commits events and state together, or yields neither", async () => {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  const log = new EventLog(store, { sessionId: "s", last: 0 });
  const totals = (value: number) => [{ type: "state", sessionId: "s", name: "totals", value } as const];
  await log.append([warning("a")], { records: totals(1) });
  const unstorable = { ...warning("b"), more: 1n };
  await assertRejects(() => log.append([warning("b"), unstorable], { records: totals(2) }), TypeError);
  assertEquals([log.last, await numbers(log), await store.readState("s", "totals")], [1, [1], 1]);
});

Deno.test("EventLog.close() throws a failure to readers after the stored events", async () => {
  const log = await newLog();
  log.open();
  await log.append([warning("a")]);
  const reader = log.read();
  assertEquals((await reader.next()).value?.number, 1);
  const next = reader.next();
  log.close(new Error("broken"));
  await assertRejects(() => next, Error, "broken");
  assertEquals(log.failed, true);
  await assertRejects(() => numbers(log), Error, "broken");
  log.open();
  log.close();
  assertEquals([log.failed, await numbers(log)], [false, [1]]);
});

Deno.test("EventLog.remove() ends all readers with an error", async () => {
  const log = await newLog();
  await log.append([warning("a"), warning("b")]);
  await log.remove();
  const error = await assertRejects(
    () => numbers(log, 1),
    HttpError,
    "Cannot read more events: session s was deleted.",
  );
  assertEquals(error.status, 404);
});
