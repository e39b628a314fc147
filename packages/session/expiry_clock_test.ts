import { assertEquals } from "@std/assert";
import { expiryClock } from "./expiry_clock.ts";

const DAY_MS = 24 * 60 * 60_000;

Deno.test("expiryClock() advances at most a week per reading, also across restarts", async () => {
  const folder = await Deno.makeTempDir();
  const start = Date.UTC(2026, 0, 1);
  let ms = start;
  const log: string[] = [];
  const open = () =>
    expiryClock(folder, { newestMs: start, now: () => ms, log: (sentence) => log.push(sentence) });
  let lagMs = open();
  const days = (days: number) => {
    ms = start + days * DAY_MS;
    return lagMs() / DAY_MS;
  };
  assertEquals([days(0), days(1), days(8)], [0, 0, 0]);
  assertEquals(log, []);
  assertEquals(days(2_000), 1_985);
  lagMs = open();
  assertEquals([days(2_000), days(2_001)], [1_985, 1_984]);
  assertEquals(log, [
    "The clock is 1992 days ahead of its last reading, 2026-01-09: sessions expire as if 7 days had passed, the others " +
    "as the server runs. If the clock is wrong, correct it.",
  ]);
  assertEquals([days(9), days(10)], [0, 0]);
  // The lag of a server that was off is gone after the same time running.
  lagMs = open();
  assertEquals([days(27), days(32), days(37), days(40)], [10, 5, 0, 0]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("expiryClock() starts from the newest session, or from the clock of an empty store", async () => {
  const folder = await Deno.makeTempDir();
  const log: string[] = [];
  const options = { now: () => 100 * DAY_MS, log: (sentence: string) => log.push(sentence) };
  assertEquals(expiryClock(`${folder}/none`, { newestMs: undefined, ...options })(), 0);
  assertEquals(expiryClock(`${folder}/none`, { newestMs: 13 * DAY_MS, ...options })(), 80 * DAY_MS);
  await Deno.writeTextFile(`${folder}/clock.json`, "{");
  assertEquals(expiryClock(folder, { newestMs: 13 * DAY_MS, ...options })(), 80 * DAY_MS);
  assertEquals(log.length, 2);
  await Deno.remove(folder, { recursive: true });
});
