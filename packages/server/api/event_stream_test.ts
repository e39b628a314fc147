import { assertEquals } from "@std/assert";
import type { LoopEvent } from "@tare/loop";
import { HttpError, type NumberedEvent } from "@tare/server";
import { eventStream, turnEvents, turnHasEnded } from "./event_stream.ts";
import { newLog } from "../fixture_test.ts";

const warning = (message: string): LoopEvent => ({ type: "warning", message });
const end: LoopEvent = {
  type: "turn_end",
  reason: "completed",
  text: "",
  ledger: { calls: 0, promptTokens: 0, cachedTokens: 0, outputTokens: 0, saved: {}, estimated: false },
};

async function numbers(events: AsyncIterable<NumberedEvent>): Promise<number[]> {
  const seen: number[] = [];
  for await (const { number } of events) seen.push(number);
  return seen;
}

Deno.test("turnEvents() ends with the turn, though the next one follows before a slow reader gets there", async () => {
  const log = newLog();
  log.open();
  for (const event of [warning("1"), end, warning("3"), end]) log.append([event]);
  assertEquals(await numbers(turnEvents(log, 0)), [1, 2]);
  assertEquals(await numbers(turnEvents(log, 2)), [3, 4]);
});

Deno.test("turnHasEnded() tells, and doesn't wait for a turn that runs", async () => {
  const log = newLog();
  log.open();
  assertEquals(await turnHasEnded(log, 0), false);
  log.append([warning("1")]);
  assertEquals(await turnHasEnded(log, 0), false);
  log.append([end]);
  assertEquals(await turnHasEnded(log, 0), true);
  assertEquals(await turnHasEnded(log, 2), false);
});

Deno.test("eventStream() numbers each event", async () => {
  const log = newLog();
  log.append([warning("a")]);
  log.append([warning("b")]);
  assertEquals(
    await eventStream(log.read(), { onError() {} }).text(),
    'id: 1\ndata: {"type":"warning","message":"a"}\n\nid: 2\ndata: {"type":"warning","message":"b"}\n\n',
  );
});

Deno.test("eventStream() tells an error in the stream, and onError what clients don't get to read", async () => {
  const told: unknown[] = [];
  const read = async (failure: Error) => {
    const log = newLog();
    log.append([warning("a")]);
    log.close(failure);
    const text = await eventStream(log.read(), { onError: (error) => told.push(error) }).text();
    return text.split("\n\n")[1];
  };
  const bug = new Error("secret");
  assertEquals(
    await read(bug),
    'event: error\ndata: {"error":{"status":500,"code":"internal_error","message":"The server met an unexpected ' +
      'error; its log says more."}}',
  );
  assertEquals(
    await read(new HttpError(507, "store_failed", "It is full.")),
    'event: error\ndata: {"error":{"status":507,"code":"store_failed","message":"It is full."}}',
  );
  assertEquals(told, [bug]);
});
