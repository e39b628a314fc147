/**
 * What commits cost in PostgreSQL beside SQLite: processor time of the server's process, and of the database's. The
 * steps are those of a turn: a batch of text deltas, then a tool result with what the session keeps, by many sessions at
 * once.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { join } from "@std/path";
import process from "node:process";
import type { Store } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import { openPostgresStore } from "@tare/conversation/postgres";
import { query, startPostgres } from "../postgres.ts";

const SESSIONS = 200;
const STEPS = 40;
const deltas = [{ type: "text_delta", step: 3, text: " and so on".repeat(3) }];
const results = [{
  type: "tool_result",
  step: 3,
  id: "call",
  content: "const answer = 42; // found\n".repeat(300),
}];
const state = "a name of something that is hidden, ".repeat(100);

const ids = Array.from({ length: SESSIONS }, (_, index) => `session ${index}`);

/** Each session's steps, two commits each, all sessions at once. */
async function play(store: Store, from: number): Promise<number> {
  let slowestMs = 0;
  await Promise.all(ids.map(async (sessionId) => {
    await store.shared?.hold(sessionId);
    for (let step = from; step < from + STEPS; step++) {
      const after = step * 2;
      const startMs = performance.now();
      await store.commit([{ type: "events", sessionId, after, events: deltas }]);
      await store.commit([
        { type: "events", sessionId, after: after + 1, events: results },
        { type: "state", sessionId, name: "edits", value: state },
        { type: "state", sessionId, name: "ledger", value: { calls: step } },
      ]);
      slowestMs = Math.max(slowestMs, performance.now() - startMs);
    }
    await store.shared?.release(sessionId);
  }));
  return slowestMs;
}

async function measure(name: string, store: Store, databaseMs: () => Promise<number>): Promise<number> {
  await store.commit(
    ids.map((id) => ({ type: "session", kind: "agent", id, createdAtMs: 0, settings: { model: "m" } })),
  );
  await play(store, 0);
  const before = { ...process.cpuUsage(), database: await databaseMs(), ms: performance.now() };
  const slowestMs = await play(store, STEPS);
  const spent = process.cpuUsage();
  const steps = SESSIONS * STEPS;
  const own = (spent.user - before.user + spent.system - before.system) / steps;
  const database = (await databaseMs() - before.database) * 1000 / steps;
  const wall = (performance.now() - before.ms) * 1000 / steps;
  console.log(
    `${name}: ${own.toFixed(0)} µs of the server's processor a step of two commits, ${
      database.toFixed(0)
    } µs of the ` +
      `database's; ${wall.toFixed(0)} µs a step, the slowest of ${SESSIONS} at once ${
        slowestMs.toFixed(0)
      } ms`,
  );
  return own;
}

const folder = await Deno.makeTempDir();
const file = await openStore(join(folder, "tare.db"));
const inFile = await measure("SQLite", file, () => Promise.resolve(0));
await file.close();
await Deno.remove(folder, { recursive: true });

const postgres = await startPostgres({
  settings: { fsync: "on", full_page_writes: "on", shared_buffers: "256MB" },
});
const url = await postgres.makeDatabase();
const store = await openPostgresStore(url);
const inPostgres = await measure("PostgreSQL", store, () => processorMs(url));
await store.close();
console.log(`The server's own: ${(inPostgres / inFile).toFixed(2)} times SQLite's`);

/** Processor time of the database's processes that there are, in milliseconds (Linux). */
async function processorMs(url: string): Promise<number> {
  const [row] = await query<{ pid: number }>(url, "SELECT pg_backend_pid() AS pid");
  const main = stat(row!.pid)[1];
  let ticks = 0;
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const [, parent, user = 0, system = 0] = stat(Number(name));
    if (parent === main) ticks += user + system;
  }
  return ticks * 10;
}

/** Number, parent, and ticks of a hundredth of a second of a process. */
function stat(pid: number): number[] {
  try {
    const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).replace(/^.*\) /, "").split(" ");
    return [pid, Number(fields[1]), Number(fields[11]), Number(fields[12])];
  } catch {
    return [];
  }
}
