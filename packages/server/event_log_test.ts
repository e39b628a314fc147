import { assertEquals } from "@std/assert";
import type { EventLog } from "./event_log.ts";
import type { LoopEvent } from "@tare/loop";
import { newLog } from "./fixture_test.ts";

const warning = (message: string): LoopEvent => ({ type: "warning", message });

async function numbers(log: EventLog, after?: number): Promise<number[]> {
  const seen: number[] = [];
  for await (const { number } of log.read(after)) seen.push(number);
  return seen;
}

Deno.test("EventLog.read() gives what is there after a number and ends when the log is closed", async () => {
  const log = newLog();
  assertEquals(await numbers(log), []);
  log.append([warning("a")]);
  log.append([warning("b")]);
  log.append([warning("c")]);
  assertEquals([await numbers(log), await numbers(log, 1), await numbers(log, 9)], [[1, 2, 3], [2, 3], []]);
});

Deno.test("EventLog.read() lets several readers follow an open log, each at its own pace", async () => {
  const log = newLog();
  log.open();
  const slow = log.read();
  const fast = numbers(log);
  log.append([warning("a")]);
  assertEquals((await slow.next()).value, { number: 1, event: warning("a") });
  log.append([warning("b")]);
  log.append([warning("c")]);
  log.close();
  assertEquals(await fast, [1, 2, 3]);
  assertEquals((await slow.next()).value, { number: 2, event: warning("b") });
  assertEquals((await slow.next()).value, { number: 3, event: warning("c") });
  assertEquals(await slow.next(), { value: undefined, done: true });
});
