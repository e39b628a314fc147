/**
 * Measures what many servers share in one PostgreSQL, whatever they do: what a notification takes of it for each that
 * listens, how many commits a second can notify, and what the renewal of a lease takes by the number of servers.
 *
 *     deno task bench:shared [--json] [--fsync on]
 *
 * CPU is read from `/proc`, so this runs on Linux alone.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { openPostgresStore } from "@tare/conversation/postgres";
import pg from "pg";
import { cpuWithChildrenMs, parentOf } from "../../scripts/bench/cluster/held.ts";
import { formatTable } from "../../scripts/bench/format_table.ts";
import { query, startPostgres } from "./postgres.ts";

const { values: { json, fsync } } = parseArgs({
  options: { json: { type: "boolean", default: false }, fsync: { type: "string", default: "on" } },
});

/** Notifications, commits and renewals that are made each time. */
const TIMES = 2000;

/** Connections that commit at once. */
const WRITERS = 8;

const postgres = await startPostgres({ settings: { fsync, full_page_writes: fsync } });
const url = await postgres.makeDatabase();
await (await openPostgresStore(url)).close();
await query(url, "CREATE TABLE notes (id bigserial PRIMARY KEY, note text NOT NULL)");
const [row] = await query<{ pid: number }>(
  url,
  "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
);
const database = parentOf(row!.pid);

async function withClients<T>(
  count: number,
  work: (clients: readonly pg.Client[]) => Promise<T>,
): Promise<T> {
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString: url }));
  for (const client of clients) await client.connect();
  try {
    return await work(clients);
  } finally {
    for (const client of clients) await client.end();
  }
}

/** What `act`, done `TIMES` times by some at once, takes each time: of the database's processor, and of the clock. */
async function taken(clients: readonly pg.Client[], sql: string, values: readonly unknown[] = []) {
  const [cpuMs, fromMs] = [cpuWithChildrenMs(database), performance.now()];
  await Promise.all(clients.map(async (client) => {
    for (let done = 0; done < TIMES / clients.length; done++) await client.query(sql, values);
  }));
  const seconds = (performance.now() - fromMs) / 1000;
  return { cpuMs: (cpuWithChildrenMs(database) - cpuMs) / TIMES, perSecond: TIMES / seconds };
}

const NOTE = "INSERT INTO notes (note) VALUES ('a few words of a delta')";
const NOTIFYING =
  "WITH told AS (SELECT pg_notify('tare', 'wsession')) INSERT INTO notes (note) SELECT 'words' FROM told";

const notifications = [];
for (const listeners of [0, 4, 16, 64]) {
  notifications.push({
    listeners,
    ...await withClients(listeners, async (listening) => {
      for (const client of listening) await client.query("LISTEN tare");
      return await withClients(1, (clients) => taken(clients, "SELECT pg_notify('tare', 'wsession')"));
    }),
  });
}
const alone = await withClients(1, (clients) => taken(clients, NOTE));
const commits = await withClients(WRITERS, (clients) => taken(clients, NOTE));
const notifying = await withClients(WRITERS, (clients) => taken(clients, NOTIFYING));
const renewals = [];
for (const servers of [4, 100, 300]) {
  const ids = Array.from({ length: servers }, (_, at) => `server ${at}`);
  await query(url, "SELECT tare.join_in(id, 600000) FROM unnest($1::text[]) AS id", [ids]);
  renewals.push({
    servers,
    ...await withClients(1, (clients) => taken(clients, "SELECT tare.renew($1)", [ids[0]])),
  });
}
if (json) console.log(JSON.stringify({ notifications, alone, commits, notifying, renewals }));
else {
  const cells = (name: string, { cpuMs, perSecond }: { cpuMs: number; perSecond: number }) =>
    [name, "", cpuMs.toFixed(3), perSecond.toFixed(0)] as const;
  console.log(formatTable([
    ["what", "", "CPU of the database, ms", "a second"],
    ...notifications.map(({ listeners, ...taken }) => cells(`a notification, ${listeners} listen`, taken)),
    cells("a commit, alone", alone),
    cells(`a commit, ${WRITERS} at once`, commits),
    cells(`a commit that notifies, ${WRITERS} at once`, notifying),
    ...renewals.map(({ servers, ...taken }) => cells(`a renewal among ${servers} servers`, taken)),
  ]));
}
// The database ends with this process.
Deno.exit();
