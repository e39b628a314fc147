/**
 * Measures servers against a simulated provider: their overhead and resources per step, on one server with a
 * file and on several with one PostgreSQL; and operations that must not depend on the number of stored
 * sessions. Servers, provider and database are processes of their own. `load.ts` defines the overhead.
 *
 *     deno task bench server [--parts load,sessions] [--servers 1,2,4] [--sessions 60] [--seconds 20]
 *                            [--sizes 10000,1000000] [--rounds 21]
 *
 * CPU is read from `/proc`, so this runs only on Linux. `TARE_TEST_POSTGRES` names another database, whose
 * CPU is then unknown.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { fromFileUrl } from "@std/path";
import { formatTable } from "../../../../scripts/format_table.ts";
import { type Postgres, query, startPostgres } from "../postgres.ts";
import { cpuMs, cpuWithChildrenMs, parentOf } from "../../../process_usage.ts";
import { measureLists } from "./lists.ts";
import { type Listening, startListening, startMain } from "../../../listening.ts";
import { type LoadResult, measureLoad } from "./load.ts";
import { createSession } from "./turn.ts";

const { values } = parseArgs({
  options: {
    parts: { type: "string", default: "load,sessions" },
    servers: { type: "string", default: "1,2,4" },
    sessions: { type: "string", default: "60" },
    seconds: { type: "string", default: "20" },
    sizes: { type: "string", default: "10000,1000000" },
    rounds: { type: "string", default: "21" },
  },
});
const parts = values.parts.split(",");
const unknown = parts.find((part) => part !== "load" && part !== "sessions");
if (unknown !== undefined) {
  console.error(`Cannot measure ${unknown}: --parts must be load, sessions or both.`);
  Deno.exit(1);
}

/** Resources of a step: CPU in milliseconds, bytes of the database's log. */
interface Taken {
  readonly serverCpuMs: number;
  readonly databaseCpuMs: number;
  readonly statements: number;
  /** Statements that wrote events. */
  readonly commits: number;
  readonly bytes: number;
}

type Measured = LoadResult & Taken & { readonly store: string; readonly servers: number };

const folder = await Deno.makeTempDir();
const workspace = `${folder}/workspace`;
const PROVIDER = fromFileUrl(new URL("./provider.ts", import.meta.url));

async function totals(
  servers: readonly Listening[],
  database: string | undefined,
  process: number | undefined,
): Promise<Taken> {
  const serverCpuMs = servers.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  if (database === undefined) {
    return { serverCpuMs, databaseCpuMs: 0, statements: 0, commits: 0, bytes: 0 };
  }
  const [row] = await query<{ statements: string; commits: string; bytes: string }>(
    database,
    `SELECT xact_commit AS statements, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS bytes,
       (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'events') AS commits
     FROM pg_stat_database WHERE datname = current_database()`,
  );
  return {
    serverCpuMs,
    databaseCpuMs: process === undefined ? NaN : cpuWithChildrenMs(process),
    statements: Number(row!.statements),
    commits: Number(row!.commits),
    bytes: Number(row!.bytes),
  };
}

/** Measures concurrent sessions on servers with one database, or on one with a file. */
async function measureServers(count: number, postgres: Postgres | undefined): Promise<Measured> {
  const database = await postgres?.makeDatabase();
  const databaseProcess = postgres?.isOurs ? await mainProcess(postgres.url) : undefined;
  await using stack = new AsyncDisposableStack();
  const provider = stack.use(await startListening(["--allow-net=127.0.0.1", PROVIDER]));
  const servers: Listening[] = [];
  for (let started = 0; started < count; started++) {
    const flags = [
      ...["--data", `${folder}/data_${crypto.randomUUID()}`, "--workspace", workspace],
      ...["--base-url", provider.url, "--model", "m", "--profile", "openai", "--max-turns", "10000"],
    ];
    const env: Record<string, string> = database === undefined ? {} : { TARE_DATABASE: database };
    servers.push(stack.use(await startMain(flags, env)));
  }
  // The first session waits for the token counter.
  for (const { url } of servers) await createSession(url);
  const result = await measureLoad({
    sessions: Number(values.sessions),
    measuredMs: Number(values.seconds) * 1000,
    servers: servers.map(({ url }) => url),
    provider: provider.url,
  }, async () => {
    const before = await totals(servers, database, databaseProcess);
    return async (steps) => {
      const after = await totals(servers, database, databaseProcess);
      const perStep = (figure: keyof Taken) => (after[figure] - before[figure]) / steps;
      return {
        serverCpuMs: perStep("serverCpuMs"),
        databaseCpuMs: perStep("databaseCpuMs"),
        statements: perStep("statements"),
        commits: perStep("commits"),
        bytes: perStep("bytes"),
      };
    };
  });
  return { ...result, store: postgres ? "PostgreSQL" : "file", servers: count };
}

async function mainProcess(url: string): Promise<number> {
  const [row] = await query<{ pid: number }>(
    url,
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
  );
  return parentOf(row!.pid);
}

function loadTable(rows: readonly Measured[]): string {
  const head = ["store", "", "servers", "turns/s", "added p50", "p99", "server CPU", "database CPU"];
  return formatTable([
    [...head, "statements", "commits", "bytes"],
    ...rows.map((row) => [
      ...[row.store, "", String(row.servers)],
      ...[row.turnsPerSecond, row.addedP50Ms, row.addedP99Ms].map((value) => value.toFixed(1)),
      ...[row.serverCpuMs, row.databaseCpuMs].map((value) => value.toFixed(2)),
      ...[row.statements, row.commits].map((value) => value.toFixed(1)),
      row.bytes.toFixed(0),
    ]),
  ]);
}

await Deno.mkdir(workspace);
await Deno.writeTextFile(`${workspace}/notes.txt`, "A line of the file that is read.\n".repeat(40));
try {
  const settings = { fsync: "on", full_page_writes: "on", max_wal_size: "8GB" };
  const postgres = await startPostgres({ settings });
  if (parts.includes("load")) {
    const rows = [await measureServers(1, undefined)];
    for (const count of values.servers.split(",")) rows.push(await measureServers(Number(count), postgres));
    console.log(
      `A step with ${values.sessions} sessions at once: added in ms, CPU in ms\n${loadTable(rows)}`,
    );
  }
  if (parts.includes("sessions")) {
    const [sizes, rounds] = [values.sizes.split(",").map(Number), Number(values.rounds)];
    console.log(`\nPostgreSQL with so many sessions\n${await measureLists({ sizes, rounds, postgres })}`);
  }
} finally {
  await Deno.remove(folder, { recursive: true });
}
Deno.exit();
