// deno-lint-ignore-file no-console
import type { Store } from "@tare/session";
import { openPostgresStore } from "@tare/session/postgres";
import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import { formatTable } from "../../../../scripts/format_table.ts";
import { percentile } from "../../../../scripts/percentile.ts";
import { type Postgres, query } from "../postgres.ts";

export interface ListsOptions {
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly postgres: Postgres;
}

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const nowMs = Date.now();

/**
 * Kind of session `n`: half are gateway sessions; four of five others are subagents of the one before; a
 * tenth has one key, and a hundred another.
 */
const KIND = "CASE WHEN n % 2 = 0 THEN 'agent' ELSE 'gateway' END";
const MADE_BY = "CASE WHEN n % 10 = 0 THEN 'many' WHEN n <= 1000 AND n % 10 = 1 THEN 'few' END";
const PARENT = "CASE WHEN n % 2 = 0 AND n % 10 <> 0 THEN n - n % 10 END";
const TITLE =
  `'"Look into issue ' || n || CASE WHEN n % 3 = 0 THEN ' of the build' WHEN n = 77 THEN ' of the Zeppelin' ELSE ' of tests' END || '"'`;
const day = new Date(nowMs).toISOString().slice(0, 10);
const totals = (kind: string) =>
  JSON.stringify({
    ...(kind === "agent" ? { turns: 3, ledger: {}, promptTokens: 20_000 } : {
      lastMs: nowMs,
      isReverted: false,
      model: "some-model",
      epoch: 1,
      savedCostUnits: 100,
      writes: ["0a1b2c3d"],
    }),
    days: {
      [`${day} some-model`]: {
        calls: 12,
        costUnits: 90_000,
        baselineCostUnits: 130_000,
        usd: 0.21,
        baselineUsd: 0.3,
      },
    },
  });
const SETTINGS = {
  agent: { instructions: "", model: "some-model", tools: [], metadata: {}, budget: {}, approvalRules: [] },
  gateway: { protocol: "chat", basis: "", holdout: false },
};
const record = (kind: keyof typeof SETTINGS) =>
  `'{"id":"s' || n || '","kind":"${kind}","createdAtMs":${nowMs},"settings":${
    JSON.stringify(SETTINGS[kind])
  }}'`;
const RECORD = `CASE WHEN n % 2 = 0 THEN ${record("agent")} ELSE ${record("gateway")} END`;
const TOTALS = `CASE WHEN n % 2 = 0 THEN '${totals("agent")}' ELSE '${totals("gateway")}' END`;

/** Totals, the same number for any number of sessions. */
const all = Array.from({ length: 90 }, (_, at) => new Date(nowMs - at * DAY_MS).toISOString().slice(0, 10))
  .flatMap((day) =>
    ["agent", "gateway"].flatMap((kind) =>
      ["", "many", "few"].flatMap((by) =>
        ["a", "b", "c"].map((model) => ({
          ...{ kind, by, day },
          about: JSON.stringify(JSON.stringify({ group: "planned", model, agent: "tare" })).slice(1, -1),
          json: JSON.stringify({ calls: 12, costUnits: 90_000, usd: 0.21 }),
        }))
      )
    )
  );

async function fill(postgres: Postgres, size: number): Promise<string> {
  const url = await postgres.makeDatabase();
  await (await openPostgresStore(url)).close();
  const rows = `FROM generate_series(1, ${size}) AS n`;
  for (
    const sql of [
      `INSERT INTO tare.sessions (id, json, commit_id) SELECT 's' || n, ${RECORD}, gen_random_uuid() ${rows} ORDER BY n`,
      `INSERT INTO tare.heads (session, kind, created_by, parent, touched_at_ms, bytes, is_measured)
         SELECT n, ${KIND}, ${MADE_BY}, ${PARENT}, ${nowMs} - (${size} - n) * ${MINUTE_MS}::bigint, 1000, true ${rows}`,
      `INSERT INTO tare.state SELECT n, 'title', ${TITLE} ${rows}`,
      `INSERT INTO tare.state SELECT n, 'totals', ${TOTALS} ${rows}`,
    ]
  ) await query(url, sql);
  const columns = (["day", "kind", "by", "about", "json"] as const).map((name) =>
    all.map((one) => one[name])
  );
  await query(
    url,
    `INSERT INTO tare.totals (day, kind, created_by, about, json)
       SELECT a, b, c, d, e::jsonb FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS x (a, b, c, d, e)`,
    columns,
  );
  await holdSome(url);
  await query(url, "VACUUM ANALYZE");
  return url;
}

interface Server {
  readonly store: Store;
  readonly get: (path: string) => Promise<void>;
  readonly post: (path: string) => Promise<void>;
  readonly size: number;
}

function serverOn(store: Store, size: number): Server {
  const countTokens = () => Promise.resolve(estimateTokens);
  const rules = { profile: profileNamed("none"), windowTokens: 100_000 };
  const handler = agentHandler({
    models: {
      ...{ ...rules, countTokens },
      model: () => {
        throw new Error("Cannot ask a model: there is none");
      },
      defaultModel: "some-model",
    },
    store,
    tools: [],
    approvals: { rules: ALLOW_EVERYTHING },
    onError: console.error,
    gateway: gateway({
      upstreams: { chat: { ...rules, baseURL: "http://upstream.example/v1" } },
      ...{ countTokens, store },
    }),
    limits: { maxSessions: Infinity },
  });
  const ask = async (path: string, method: string) => {
    const headers = { "content-type": "application/json" };
    const body = method === "POST" ? { body: "{}", headers } : {};
    const response = await handler.fetch(new Request(`http://localhost${path}`, { method, ...body }));
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  };
  return { store, size, get: (path) => ask(path, "GET"), post: (path) => ask(path, "POST") };
}

const list = (options: Parameters<Store["listSessions"]>[0]) => ({ store }: Server) =>
  store.listSessions(options);

const ACTS: Readonly<Record<string, (server: Server) => Promise<unknown> | undefined>> = {
  "list": ({ get }) => get("/tare/v1/sessions?limit=100"),
  "list, agents, no helpers": ({ get }) => get("/tare/v1/sessions?kind=agent&subagents=false&limit=100"),
  "list, from the middle": ({ get, size }) => get(`/tare/v1/sessions?limit=100&after=s${size / 2}`),
  "list of a key of many": list({ by: "many", forks: false }),
  "list of a key of a hundred": list({ by: "few", kind: "agent" }),
  "search, a third has it": ({ get }) => get("/tare/v1/sessions?search=THE%20BUILD&limit=100"),
  "search, one has it": ({ get }) => get("/tare/v1/sessions?search=zeppelin&limit=100"),
  "search, none has it": ({ get }) => get("/tare/v1/sessions?search=nowhere&limit=100"),
  "create": ({ post }) => post("/tare/v1/sessions"),
  "overview": ({ get }) => get("/tare/v1/overview"),
  "spending of a month by model": ({ get }) =>
    get(`/tare/v1/spend?by=model&from=${new Date(nowMs - 30 * DAY_MS).toISOString().slice(0, 10)}`),
  "spending by session": ({ get }) => get("/tare/v1/spend?by=session"),
  "count": ({ store }) => store.countSessions("agent"),
  "the longest idle": ({ store }) => store.idleSessions({ kind: "agent", beforeMs: nowMs, limit: 100 }),
  "expiry of nothing": ({ store }) =>
    store.expireSessions({ kind: "gateway", beforeMs: 0, maxBytes: 2 ** 50 }),
  "what a gone server held": ({ store }) => store.shared?.abandonedSessions(),
};

/** Assigns five thousand sessions to two servers, a hundred of them to one that is gone. */
async function holdSome(url: string): Promise<void> {
  await query(
    url,
    `INSERT INTO tare.servers VALUES ('there', '1 day', now() + interval '1 day'), ('gone', '10 s', now() - interval '10 s')`,
  );
  await query(
    url,
    "UPDATE tare.heads SET holder = CASE WHEN session <= 100 THEN 'gone' ELSE 'there' END WHERE session <= 5000",
  );
}

async function measure(
  servers: readonly Server[],
  { act, rounds }: {
    readonly act: (server: Server) => Promise<unknown> | undefined;
    readonly rounds: number;
  },
): Promise<number[]> {
  const times = servers.map((): number[] => []);
  for (let round = 0; round < rounds + 2; round++) {
    for (const [at, server] of servers.entries()) {
      const startMs = performance.now();
      await act(server);
      if (round >= 2) times[at]!.push(performance.now() - startMs);
    }
  }
  return times.map((all) => percentile(all, 0.5));
}

/**
 * Measures operations that must not depend on the number of stored sessions, and returns a table. Sessions
 * are created by SQL.
 */
export async function measureLists({ sizes, rounds, postgres }: ListsOptions): Promise<string> {
  const urls: string[] = [];
  for (const size of sizes) urls.push(await fill(postgres, size));
  const stores = await Promise.all(urls.map((url) => openPostgresStore(url)));
  const servers = stores.map((store, at) => serverOn(store, sizes[at]!));
  const rows: string[][] = [];
  for (const [what, act] of Object.entries(ACTS)) {
    const medians = await measure(servers, { act, rounds });
    rows.push([what, "", ...medians.map((ms) => ms.toFixed(1)), (medians.at(-1)! / medians[0]!).toFixed(2)]);
  }
  for (const store of stores) await store.close();
  for (const url of urls) await postgres.dropDatabase(url);
  return formatTable([["ms, median", "", ...sizes.map(String), "ratio"], ...rows]);
}
