/**
 * Measures several servers on one PostgreSQL, against a simulated provider: what they add to a step, what a step takes of
 * server and database, and how much more several carry than one when each is held to the same share of a core. Servers,
 * provider and database are processes of their own; the servers are started as the start command starts them.
 * `scripts/bench/cluster/load.ts` says what counts as added.
 *
 *     deno task bench:cluster [--json] [--parts latency,cpu,scale,follow,away] [--servers 1,2,4] [--sessions 200]
 *       [--share 0.25] [--each 12,16,20,24] [--p99 500] [--seconds 20] [--messages 6000] [--fsync on] [--sqlite]
 *
 * `follow` has each of 20 sessions followed on two other servers, by clients that ask again when a turn has ended. `away`
 * has a long session's turns played on one server, on two by turns, and on one that has never seen it.
 *
 * CPU is read from `/proc`, so this runs on Linux alone; as root, shares are held by cgroups. `TARE_TEST_POSTGRES` names
 * another database, whose CPU isn't known then.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { fromFileUrl } from "@std/path";
import { cpuMs, cpuWithChildrenMs, hold, parentOf } from "../../scripts/bench/cluster/held.ts";
import {
  type ClusterLoad,
  type ClusterLoadResult,
  measureClusterLoad,
  measureProxy,
} from "../../scripts/bench/cluster/load.ts";
import { formatTable } from "../../scripts/bench/format_table.ts";
import { type Listening, startListening } from "../../scripts/bench/server/listening.ts";
import { startMain } from "../../scripts/bench/server/rest.ts";
import { importSessions, talkedSession } from "../../scripts/bench/server/sessions.ts";
import { createSession, followTurns, playTurn } from "../../scripts/bench/server/turn.ts";
import { type Postgres, query, startPostgres } from "./postgres.ts";

const { values } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    sqlite: { type: "boolean", default: false },
    parts: { type: "string", default: "latency,cpu,scale,follow,away" },
    servers: { type: "string", default: "1,2,4" },
    sessions: { type: "string", default: "200" },
    share: { type: "string", default: "0.25" },
    each: { type: "string", default: "12,16,20,24" },
    p99: { type: "string", default: "500" },
    seconds: { type: "string", default: "20" },
    messages: { type: "string", default: "6000" },
    fsync: { type: "string", default: "on" },
  },
});
const measuredMs = Number(values.seconds) * 1000;
const serverCounts = values.servers.split(",").map(Number);

/** A model as they are in use: each step says forty words and calls a tool. */
const MANNER = { thinkMs: 5_000, words: 40, perSecond: 80 };

/** What a step takes. CPU in milliseconds, bytes of the database's log. */
interface Taken {
  readonly serverCpuMs: number;
  readonly databaseCpuMs: number;
  /** Statements, each a transaction of its own. */
  readonly statements: number;
  /** Those that wrote events. */
  readonly commits: number;
  readonly bytes: number;
}

type Measured = ClusterLoadResult & Taken & { readonly servers: number; readonly sessions: number };

const folder = await Deno.makeTempDir();
const workspace = `${folder}/workspace`;
const provider = fromFileUrl(new URL("../../scripts/bench/server/provider.ts", import.meta.url));

/** Starts servers on one database, or on a file, and stops them behind the work. */
async function withServers<T>(
  { count, database, flags: more = [] }: {
    readonly count: number;
    readonly database: string | undefined;
    readonly flags?: readonly string[];
  },
  work: (servers: readonly Listening[], provider: Listening) => Promise<T>,
): Promise<T> {
  await using stack = new AsyncDisposableStack();
  const upstream = stack.use(await startListening(["--allow-net=127.0.0.1", provider]));
  const servers: Listening[] = [];
  for (let started = 0; started < count; started++) {
    const flags = [
      ...["--data", `${folder}/data_${crypto.randomUUID()}`, "--workspace", workspace],
      ...["--base-url", upstream.url, "--model", "after-0", "--profile", "openai", "--max-turns", "10000"],
      ...more,
    ];
    servers.push(
      stack.use(await startMain(flags, database === undefined ? {} : { TARE_DATABASE: database })),
    );
  }
  // The first session waits for the token counter.
  for (const { url } of servers) await createSession(url, "after-0");
  return await work(servers, upstream);
}

/** Starts a provider and a bare proxy in front of it. */
async function withProvider<T>(work: (provider: Listening, proxy: Listening) => Promise<T>): Promise<T> {
  await using upstream = await startListening(["--allow-net=127.0.0.1", provider]);
  const script = fromFileUrl(new URL("../../scripts/bench/cluster/bare_proxy.ts", import.meta.url));
  await using proxy = await startListening(["--allow-net=127.0.0.1", script, upstream.url]);
  return await work(upstream, proxy);
}

/** What the database has done so far. */
async function databaseTotals(url: string) {
  const [row] = await query<{ statements: string; commits: string; bytes: string }>(
    url,
    `SELECT xact_commit AS statements, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS bytes,
       (SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'events') AS commits
     FROM pg_stat_database WHERE datname = current_database()`,
  );
  const { statements, commits, bytes } = row!;
  return { statements: Number(statements), commits: Number(commits), bytes: Number(bytes) };
}

/** Begins to measure what steps take; gives what ends that. */
async function gauge(
  servers: readonly Listening[],
  database: string | undefined,
): Promise<(steps: number) => Promise<Taken>> {
  const cpuOfServers = () => servers.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
  const read = async () => {
    if (database === undefined) return { statements: 0, commits: 0, bytes: 0, databaseCpuMs: 0 };
    const totals = await databaseTotals(database);
    const databaseCpuMs = databaseProcess === undefined ? NaN : cpuWithChildrenMs(databaseProcess);
    return { ...totals, databaseCpuMs };
  };
  const [cpuBefore, before] = [cpuOfServers(), await read()];
  return async (steps) => {
    const serverCpuMs = cpuOfServers() - cpuBefore;
    const after = await read();
    return {
      serverCpuMs: serverCpuMs / steps,
      databaseCpuMs: (after.databaseCpuMs - before.databaseCpuMs) / steps,
      statements: (after.statements - before.statements) / steps,
      commits: (after.commits - before.commits) / steps,
      bytes: (after.bytes - before.bytes) / steps,
    };
  };
}

async function measure(
  servers: readonly Listening[],
  { database, provider, ...load }:
    & Pick<ClusterLoad, "sessions" | "thinkMs" | "words" | "perSecond">
    & Partial<Pick<ClusterLoad, "measuredMs" | "follow">>
    & { readonly provider: Listening; readonly database: string | undefined },
): Promise<Measured> {
  const urls = servers.map(({ url }) => url);
  const result = await measureClusterLoad(
    { measuredMs, ...load, servers: urls, provider: provider.url },
    () => gauge(servers, database),
  );
  return { ...result, servers: servers.length, sessions: load.sessions };
}

/** Added latency with many sessions at once, nobody held; and what a bare proxy adds to as many calls. */
async function measureLatency(postgres: Postgres) {
  const rows: Measured[] = [];
  const proxy = await withProvider((upstream, proxy) =>
    measureProxy({
      ...{ ...MANNER, measuredMs, sessions: Number(values.sessions) },
      ...{ provider: upstream.url, proxy: proxy.url },
    })
  );
  for (const count of serverCounts) {
    const database = await postgres.makeDatabase();
    const sessions = Number(values.sessions);
    rows.push(
      await withServers(
        { count, database },
        (servers, provider) => measure(servers, { ...MANNER, sessions, provider, database }),
      ),
    );
  }
  return { rows, proxy };
}

/** What a step takes of one server, with the file and with the database, at the same load. */
async function measureCpu(
  postgres: Postgres | undefined,
): Promise<Record<"sqlite" | "postgres", Measured | undefined>> {
  const one = async (database: string | undefined) =>
    await withServers(
      { count: 1, database },
      (servers, provider) => measure(servers, { ...MANNER, sessions: 60, provider, database }),
    );
  return { sqlite: await one(undefined), postgres: postgres && await one(await postgres.makeDatabase()) };
}

/** What a step takes of the database with nobody and with two who follow each session on servers of their own. */
async function measureFollowers(
  postgres: Postgres,
): Promise<readonly (Measured & { readonly followers: number })[]> {
  const rows: (Measured & { readonly followers: number })[] = [];
  for (const followers of [0, 2]) {
    const database = await postgres.makeDatabase();
    const row = await withServers({ count: 3, database }, async ([home, ...others], provider) => {
      const elsewhere = others.map(({ url }) => url).slice(0, followers);
      const load = { ...MANNER, thinkMs: 1_000, sessions: 20, provider, database };
      return await measure([home!], {
        ...load,
        follow: (id, isOver) => Promise.all(elsewhere.map((server) => followTurns({ server, id, isOver }))),
      });
    });
    rows.push({ ...row, followers });
  }
  return rows;
}

/** Milliseconds of CPU that a turn of a long session takes of all servers together, by where it is played. */
interface Away {
  /** Where the one before it was. */
  readonly stickyMs: number;
  /** On the other one of two servers each time. */
  readonly byTurnsMs: number;
  /** On a server that has never seen the session. */
  readonly firstMs: number;
}

/** Turns that are played of each sort. */
const AWAY_TURNS = 10;

async function measureAway(postgres: Postgres): Promise<Away> {
  const database = await postgres.makeDatabase();
  const flags = ["--window", "1000000"];
  return await withServers({ count: 3, database, flags }, async (servers) => {
    const [a, b, c] = servers.map(({ url }) => url);
    const ids: string[] = [];
    for (let seed = 0; seed < AWAY_TURNS; seed++) {
      // Several at once would be more than a body may hold.
      ids.push(...await importSessions(a!, [() => talkedSession(Number(values.messages), { seed })]));
    }
    const [long = "", warm = "", ...others] = ids;
    const perTurn = async (play: () => Promise<void>, turns: number) => {
      const cpu = () => servers.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
      const before = cpu();
      await play();
      return (cpu() - before) / turns;
    };
    const playOn = async (urls: readonly (string | undefined)[], id: string) => {
      for (let turn = 0; turn < AWAY_TURNS; turn++) await playTurn(urls[turn % urls.length]!, id);
    };
    // What runs for the first time is compiled first.
    await playOn([a, b, c], warm);
    await playOn([a, b, c], warm);
    await playOn([a], long);
    const stickyMs = await perTurn(() => playOn([a], long), AWAY_TURNS);
    await playOn([a, b], long);
    const byTurnsMs = await perTurn(() => playOn([a, b], long), AWAY_TURNS);
    for (const id of others) await playTurn(a!, id);
    const firstMs = await perTurn(async () => {
      for (const id of others) await playTurn(c!, id);
    }, others.length);
    return { stickyMs, byTurnsMs, firstMs };
  });
}

/** What servers carry once their code is compiled, each held to its share of a core, with more and more sessions on each. */
async function measureScale(
  postgres: Postgres,
): Promise<{ readonly by: string; readonly rows: readonly Measured[] }> {
  const manner = { thinkMs: 1_000, words: 20, perSecond: 80 };
  const rows: Measured[] = [];
  let by = "";
  for (const count of serverCounts) {
    const database = await postgres.makeDatabase();
    await withServers({ count, database }, async (servers, provider) => {
      const warmth = {
        ...manner,
        thinkMs: 100,
        sessions: 20 * count,
        provider,
        database,
        measuredMs: 15_000,
      };
      await measure(servers, warmth);
      using held = hold(servers.map(({ pid }) => pid), Number(values.share));
      by = held.by;
      for (const each of values.each.split(",")) {
        const sessions = Number(each) * count;
        const row = await measure(servers, { ...manner, sessions, provider, database });
        console.error(progress(row));
        rows.push(row);
        if (row.addedP99Ms > 2 * Number(values.p99)) break;
      }
    });
  }
  return { by, rows };
}

/**
 * The turns per second at which 99 of 100 steps are within the limit: from the largest load that was, towards the next. If
 * that was the largest of all, it is what was shown, and they may carry more.
 */
function carried(rows: readonly Measured[]): number {
  const limitMs = Number(values.p99);
  const within = rows.findLastIndex(({ addedP99Ms }) => addedP99Ms <= limitMs);
  const [low, high] = [rows[within], rows[within + 1]];
  if (!low || !high) return low?.turnsPerSecond ?? NaN;
  const share = (limitMs - low.addedP99Ms) / (high.addedP99Ms - low.addedP99Ms);
  return low.turnsPerSecond + share * (high.turnsPerSecond - low.turnsPerSecond);
}

function describeScale(rows: readonly Measured[]): string {
  const most = serverCounts.map((count) => ({
    count,
    turns: carried(rows.filter(({ servers }) => servers === count)),
  }));
  return most.map(({ count, turns }) =>
    `${count}: ${turns.toFixed(1)} turns/s, ${(turns / most[0]!.turns).toFixed(2)} times`
  ).join("; ");
}

function progress(
  { servers, sessions, turnsPerSecond, addedP50Ms, addedP99Ms, serverCpuMs }: Measured,
): string {
  return `${servers} servers, ${sessions} sessions: ${turnsPerSecond.toFixed(1)} turns/s, added p50 ${
    addedP50Ms.toFixed(1)
  } ms, p99 ${addedP99Ms.toFixed(1)} ms, ${serverCpuMs.toFixed(2)} ms CPU a step`;
}

const HEAD = [
  ...["servers", "sessions", "turns/s", "added p50", "p99", "server CPU", "database CPU"],
  ...["statements", "commits", "bytes"],
];

function cells(row: Measured): string[] {
  return [
    String(row.servers),
    String(row.sessions),
    ...[row.turnsPerSecond, row.addedP50Ms, row.addedP99Ms].map((value) => value.toFixed(1)),
    ...[row.serverCpuMs, row.databaseCpuMs].map((value) => value.toFixed(2)),
    ...[row.statements, row.commits].map((value) => value.toFixed(1)),
    row.bytes.toFixed(0),
  ];
}

const postgres = values.sqlite
  ? undefined
  : await startPostgres({ settings: { fsync: values.fsync, full_page_writes: values.fsync } });
/** The database's main process; nothing of one elsewhere. */
const databaseProcess = postgres?.isOurs ? await mainProcess(postgres.url) : undefined;

async function mainProcess(url: string): Promise<number> {
  const [row] = await query<{ parent: number }>(
    url,
    "SELECT pid AS parent FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
  );
  return parentOf(row!.parent);
}

const parts = values.parts.split(",");
await Deno.mkdir(workspace);
await Deno.writeTextFile(`${workspace}/notes.txt`, "A line of the file that is read.\n".repeat(40));
try {
  const latency = postgres && parts.includes("latency") ? await measureLatency(postgres) : undefined;
  const cpu = parts.includes("cpu") ? await measureCpu(postgres) : undefined;
  const scale = postgres && parts.includes("scale") ? await measureScale(postgres) : undefined;
  const follow = postgres && parts.includes("follow") ? await measureFollowers(postgres) : undefined;
  const away = postgres && parts.includes("away") ? await measureAway(postgres) : undefined;
  if (values.json) console.log(JSON.stringify({ latency, cpu, scale, follow, away }));
  else {
    const table = (rows: readonly (Measured | undefined)[]) =>
      formatTable([HEAD, ...rows.flatMap((row) => row ? [cells(row)] : [])]);
    const blocks = [
      "Figures of a step: added in ms, CPU in ms; statements, commits of events and bytes of the log in the database",
      ...(latency
        ? [
          "",
          `Many sessions at once; a bare proxy adds p50 ${latency.proxy.addedP50Ms.toFixed(1)} ms, p99 ${
            latency.proxy.addedP99Ms.toFixed(1)
          } ms to a call`,
          table(latency.rows),
        ]
        : []),
      ...(cpu
        ? ["", "One server: with a file, and with the database", table([cpu.sqlite, cpu.postgres])]
        : []),
      ...(scale
        ? [
          "",
          `Each server held to ${values.share} of a core by ${scale.by}`,
          table(scale.rows),
          `Within p99 ${values.p99} ms: ${describeScale(scale.rows)}`,
        ]
        : []),
      ...(follow
        ? [
          "",
          "One server with 20 sessions, which nobody and which two follow on two others",
          formatTable([
            ["followers", ...HEAD.slice(2)],
            ...follow.map((row) => [String(row.followers), ...cells(row).slice(2)]),
          ]),
        ]
        : []),
      ...(away
        ? [
          "",
          `CPU of a turn of four steps in a session of ${values.messages} messages, all servers together`,
          formatTable([
            ["on the same server", "on two by turns", "on one that never saw it"],
            [away.stickyMs, away.byTurnsMs, away.firstMs].map((ms) => `${ms.toFixed(0)} ms`),
          ]),
        ]
        : []),
    ];
    console.log(blocks.join("\n"));
  }
} finally {
  await Deno.remove(folder, { recursive: true });
}
// The database ends with this process.
Deno.exit();
