import { Buffer } from "node:buffer";
import pg from "pg";
import type { ConnectionMetrics } from "../port.ts";
import type { SqlValue } from "../queries.ts";
import { StoreError } from "../store_error.ts";
import { asStoreError, databaseError, isPassing } from "./database_error.ts";

export interface Connection {
  query<Row = unknown>(sql: string): Promise<Row[]>;
}

/** `pg` has no types of its own. */
interface Client {
  connect(): Promise<void>;
  query(query: {
    readonly text: string;
    readonly name?: string;
    readonly values?: readonly SqlValue[];
    readonly query_timeout?: number;
  }): Promise<{ readonly rows: unknown[] }>;
  end(): Promise<void>;
  on(event: "error" | "end", listener: () => void): void;
  on(event: "notification", listener: (message: { readonly payload?: string }) => void): void;
  readonly connection: { readonly stream: { destroy(): void } };
}

export interface ConnectionOptions {
  readonly url: string;
  readonly place: string;
  readonly maxConnections: number;
  /** Time limit of retries in milliseconds. */
  readonly timeoutMs: number;
  /** Time limits of connecting, of a statement, and of its waits for locks, in milliseconds. */
  readonly connectMs: number;
  readonly statementMs: number;
  readonly lockMs: number;
}

/** A pool of connections, opened on demand and reopened when lost. */
export interface Connections {
  /**
   * Runs a statement, prepared once per connection, and returns its rows. Statements must be idempotent: they are
   * resent if the connection is lost.
   *
   * @throws {StoreError}
   */
  query<Row>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /**
   * Opens a connection of its own, which the caller closes. A statement beyond the limit closes it. Default: no limit.
   */
  open(limitMs?: number): Promise<OwnConnection>;
  metrics(): ConnectionMetrics;
  close(): Promise<void>;
}

export interface OwnConnection extends Connection {
  query<Row = unknown>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  onEvent(listener: { readonly notified: (payload: string) => void; readonly ended: () => void }): void;
  close(): Promise<void>;
}

const MAX_PREPARED = 500;

const typeParsers = { getTypeParser: (oid: number) => PARSERS[oid] ?? ((value: string) => value) };

const PARSERS: Readonly<Record<number, (value: string) => unknown>> = {
  16: (value) => value === "t",
  17: (value) => Buffer.from(value.slice(2), "hex"),
  20: Number,
  23: Number,
  1009: pg.types.getTypeParser(1009),
};

export function connectionsTo(options: ConnectionOptions): Connections {
  const { place, maxConnections, timeoutMs } = options;
  const shared = Array.from({ length: maxConnections }, () => sharedConnection(options));
  const names = new Map<string, string>();
  let isOpen = true;
  const nameOf = (sql: string) => {
    const known = names.get(sql);
    if (known !== undefined || names.size >= MAX_PREPARED) return known;
    names.set(sql, `s${names.size}`);
    return names.get(sql);
  };
  const attempt = (sql: string, values: readonly SqlValue[]): Promise<unknown[]> => {
    if (!isOpen) throw new Error("Cannot use the store: it is closed");
    const connection = shared.reduce((best, one) => one.waiting < best.waiting ? one : best);
    return connection.run(sql, { values, name: nameOf(sql) });
  };
  const withRetries = async <T>(attempt: () => Promise<T>): Promise<T> => {
    const endMs = performance.now() + timeoutMs;
    for (let attempts = 0;; attempts++) {
      try {
        return await attempt();
      } catch (error) {
        const waitMs = Math.min(1000, 20 * 2 ** attempts) * (0.5 + Math.random() / 2);
        // After a suspension of the process the time is over without attempts.
        const isOver = attempts > 0 && performance.now() + waitMs > endMs;
        if (!isOpen || !isPassing(error) || isOver) {
          throw asStoreError(error, place);
        }
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  };
  return {
    query: <Row>(sql: string, values: readonly SqlValue[] = []) =>
      withRetries(async () => await attempt(sql, values) as Row[]),
    open: (limitMs) => withRetries(() => ownConnection(options, limitMs)),
    metrics: () => {
      const open = shared.filter(({ isOpen }) => isOpen);
      return {
        most: maxConnections,
        open: open.length,
        idle: open.filter(({ waiting }) => waiting === 0).length,
        waiting: shared.reduce((sum, { waiting }) => sum + Math.max(0, waiting - 1), 0),
      };
    },
    async close() {
      isOpen = false;
      await Promise.all(shared.map((connection) => connection.close()));
    },
  };
}

async function connect(options: ConnectionOptions, pipeline: boolean): Promise<Client> {
  const { connectMs, statementMs, lockMs } = options;
  const client: Client = new pg.Client({
    connectionString: strictUrl(options.url),
    application_name: "tare",
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    types: typeParsers,
    pipeline,
  });
  // Failures reject calls; an `error` event without a listener would end the process.
  client.on("error", () => {});
  try {
    await client.connect();
    // Not in the startup message: poolers accept only few settings there.
    await client.query({
      text: `SET search_path = tare; SET statement_timeout = ${Math.ceil(statementMs)};
        SET lock_timeout = ${Math.ceil(lockMs)}`,
      query_timeout: connectMs,
    });
  } catch (error) {
    client.connection.stream.destroy();
    throw error;
  }
  return client;
}

/**
 * Returns the URL with explicit certificate checks: `pg` treats weaker-sounding modes as the strictest, with a long
 * warning.
 */
function strictUrl(url: string): string {
  return url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, "$1verify-full");
}

async function end(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), 500);
  await client.end();
  clearTimeout(timer);
}

function sharedConnection(options: ConnectionOptions) {
  let client: Promise<Client> | undefined;
  const connected = () => {
    if (client) return client;
    const made = connect(options, true);
    client = made;
    const forget = () => {
      if (client !== made) return;
      client = undefined;
      self.isOpen = false;
    };
    made.then((opened) => {
      opened.on("end", forget);
      self.isOpen = client === made;
    }, forget);
    return made;
  };
  const self = {
    isOpen: false,
    waiting: 0,
    async run(
      sql: string,
      { values, name }: { readonly values: readonly SqlValue[]; readonly name: string | undefined },
    ) {
      self.waiting++;
      try {
        // Without a server-side timeout in time, the connection is closed with everything queued on it.
        const query = { text: sql, values, query_timeout: options.statementMs * 1.2 };
        const made = await connected();
        return (await made.query(name === undefined ? query : { ...query, name })).rows;
      } finally {
        self.waiting--;
      }
    },
    async close() {
      const open = await client?.catch(() => undefined);
      if (open) await end(open);
    },
  };
  return self;
}

async function ownConnection(
  options: ConnectionOptions,
  limitMs: number | undefined,
): Promise<OwnConnection> {
  const client = await connect(options, false);
  let isOpen = true;
  return {
    async query<Row>(sql: string, values?: readonly SqlValue[]) {
      try {
        const limit = limitMs === undefined ? {} : { query_timeout: limitMs };
        return (await client.query({ text: sql, ...limit, ...(values && { values }) })).rows as Row[];
      } catch (error) {
        // Statements after an unanswered one would wait forever.
        if (!databaseError(error)) client.connection.stream.destroy();
        throw asStoreError(error, options.place);
      }
    },
    onEvent({ notified, ended }) {
      client.on("notification", ({ payload = "" }) => notified(payload));
      client.on("end", () => isOpen && ended());
    },
    async close() {
      isOpen = false;
      await end(client);
    },
  };
}

interface Session {
  readonly pid: number;
  readonly name: string | null;
}

const SESSION_QUERY = "SELECT pg_backend_pid() AS pid, current_setting('tare.session', true) AS name";

/**
 * Checks that each connection is one database session. Transaction-level poolers lose notifications and prepared
 * statements.
 *
 * @throws {StoreError} if it isn't, with advice.
 */
export async function assertSessions(
  open: () => Promise<OwnConnection>,
  { place, waitMs }: {
    readonly place: string;
    readonly waitMs: number;
  },
): Promise<void> {
  const refusal = (found: string) =>
    new StoreError(
      "io",
      `Cannot open the store ${place}: ${found}. A connection pooler assigns connections per transaction, such as ` +
        "pgbouncer with pool_mode = transaction, but the store needs notifications and prepared statements. " +
        "Use session pooling (pool_mode = session), or connect to the database directly.",
    );
  const one = await open();
  try {
    const other = await open();
    try {
      const name = `tare_${crypto.randomUUID().replaceAll("-", "")}`;
      await one.query(`SELECT set_config('tare.session', '${name}', false)`);
      const [mine] = await one.query<Session>(SESSION_QUERY);
      // An open transaction forces a transaction-level pooler to use another connection.
      await other.query("BEGIN").catch((error) => {
        throw /pooling/.test(String(error)) ? refusal("it accepts no transactions") : error;
      });
      const [theirs] = await other.query<Session>(SESSION_QUERY);
      const isShared = theirs!.pid === mine!.pid || theirs!.name === name;
      const [again] = isShared ? [mine] : await one.query<Session>(SESSION_QUERY);
      await other.query("COMMIT");
      if (isShared || again!.pid !== mine!.pid || again!.name !== name) {
        throw refusal("its connections aren't separate database sessions");
      }
      if (!await hears(one, { name, notify: () => other.query(`NOTIFY ${name}, '${name}'`), waitMs })) {
        throw refusal("its notifications don't arrive");
      }
    } finally {
      await other.close();
    }
  } finally {
    await one.close();
  }
}

async function hears(
  connection: OwnConnection,
  { name, notify, waitMs }: {
    readonly name: string;
    readonly notify: () => Promise<unknown>;
    readonly waitMs: number;
  },
): Promise<boolean> {
  const heard = Promise.withResolvers<boolean>();
  connection.onEvent({
    notified: (payload) => payload === name && heard.resolve(true),
    ended: () => heard.resolve(false),
  });
  await connection.query(`LISTEN ${name}`);
  await notify();
  const timer = setTimeout(() => heard.resolve(false), waitMs);
  try {
    return await heard.promise;
  } finally {
    clearTimeout(timer);
  }
}
