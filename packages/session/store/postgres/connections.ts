import { Buffer } from "node:buffer";
import pg from "pg";
import type { ConnectionFigures } from "../port.ts";
import type { SqlValue } from "../queries.ts";
import { StoreError } from "../store_error.ts";
import { asStoreError, databaseError, isPassing } from "./database_error.ts";

/** One connection, as what makes the tables uses it: statements without values, one after the other. */
export interface Connection {
  query<Row = unknown>(sql: string): Promise<Row[]>;
}

/** What is used of `pg`, which has no types of its own. */
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

/** How a database is reached. */
export interface ConnectionOptions {
  readonly url: string;
  /** How errors name it. */
  readonly place: string;
  readonly maxConnections: number;
  /** How long something is tried, in milliseconds, before it is an error. */
  readonly timeoutMs: number;
  /** How long a connection may take to be made, a statement to be done, and of that to wait for a lock, in milliseconds. */
  readonly connectMs: number;
  readonly statementMs: number;
  readonly lockMs: number;
}

/** Connections to one database, made when they are needed and again when they are lost. */
export interface Connections {
  /**
   * Runs a statement, prepared once on each connection, and gives its rows. One that is lost on its way is sent again
   * until the time is over: so each must do the same twice as once.
   *
   * @throws {StoreError} if the database can't be reached or refuses.
   */
  query<Row>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /**
   * Opens a connection for something that isn't to wait for anything else. A statement that takes longer than this ends
   * it; without a limit it takes as long as it takes. The caller closes it.
   */
  open(limitMs?: number): Promise<OwnConnection>;
  /** How those are that several share. */
  figures(): ConnectionFigures;
  close(): Promise<void>;
}

/** A connection that is one user's alone. */
export interface OwnConnection extends Connection {
  query<Row = unknown>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /** Told of each notification, and once of the connection's end. */
  onEvent(listener: { readonly notified: (payload: string) => void; readonly ended: () => void }): void;
  /** Ends it, without waiting for anything that is under way. */
  close(): Promise<void>;
}

/** Statements that stay prepared on a connection; more are forms of commits that hardly anybody makes twice. */
const MAX_PREPARED = 500;

const text = { getTypeParser: (oid: number) => PARSERS[oid] ?? ((value: string) => value) };

/** By the number of the type in every PostgreSQL: boolean, bytea, bigint, integer, text[]; all others are text. */
const PARSERS: Readonly<Record<number, (value: string) => unknown>> = {
  16: (value) => value === "t",
  17: (value) => Buffer.from(value.slice(2), "hex"),
  20: Number,
  23: Number,
  1009: pg.types.getTypeParser(1009),
};

/** Makes connections to a database. None is there before it is needed. */
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
    // The one with the least to do.
    const connection = shared.reduce((best, one) => one.waiting < best.waiting ? one : best);
    return connection.run(sql, { values, name: nameOf(sql) });
  };
  const untilItGoes = async <T>(attempt: () => Promise<T>): Promise<T> => {
    const endMs = performance.now() + timeoutMs;
    for (let attempts = 0;; attempts++) {
      try {
        return await attempt();
      } catch (error) {
        const waitMs = Math.min(1000, 20 * 2 ** attempts) * (0.5 + Math.random() / 2);
        // Of a process that was stopped meanwhile the time is over, and nothing was tried for long.
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
      untilItGoes(async () => await attempt(sql, values) as Row[]),
    open: (limitMs) => untilItGoes(() => ownConnection(options, limitMs)),
    figures: () => {
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
    types: text,
    pipeline,
  });
  // What fails says so itself; an event that nobody hears would end the process.
  client.on("error", () => {});
  try {
    await client.connect();
    // Not with the connection's first message: what pools connections takes only few settings there.
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

/** The client takes modes that sound weaker for the strictest, and says at length that this may change. */
function strictUrl(url: string): string {
  return url.replace(/([?&]sslmode=)(prefer|require|verify-ca)(?=&|$)/, "$1verify-full");
}

/** Says goodbye; who doesn't hear it is left. */
async function end(client: Client): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), 500);
  await client.end();
  clearTimeout(timer);
}

/** One connection for all: statements are sent without waiting for the answers to those before. */
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
    /** Statements that are under way on it. */
    waiting: 0,
    async run(
      sql: string,
      { values, name }: { readonly values: readonly SqlValue[]; readonly name: string | undefined },
    ) {
      self.waiting++;
      try {
        // One that doesn't even say that it took too long is cut, with all that waits on it.
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
        // What comes behind a statement that isn't answered would never be.
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

/** What a connection says of itself. */
interface Session {
  readonly pid: number;
  readonly name: string | null;
}

const LOOK = "SELECT pg_backend_pid() AS pid, current_setting('tare.session', true) AS name";

/**
 * Finds out whether each connection is one with the database. What pools them by transaction lets others use it in between,
 * and keeps notifications to itself; most statements go well then, one here and there, and it takes a while until
 * anybody sees why.
 *
 * @throws {StoreError} if it isn't, with what to do.
 */
export async function assertSessions(
  open: () => Promise<OwnConnection>,
  { place, waitMs }: {
    readonly place: string;
    /** How long a notification may take, in milliseconds. */
    readonly waitMs: number;
  },
): Promise<void> {
  const refusal = (found: string) =>
    new StoreError(
      "io",
      `Cannot open the store ${place}: ${found}. Something on the way to it hands out connections by transaction, such as ` +
        "pgbouncer with pool_mode = transaction, and the store listens and prepares statements, which takes connections of " +
        "its own. Let it pool by session (pool_mode = session), or connect to the database itself.",
    );
  const one = await open();
  try {
    const other = await open();
    try {
      const name = `tare_${crypto.randomUUID().replaceAll("-", "")}`;
      await one.query(`SELECT set_config('tare.session', '${name}', false)`);
      const [mine] = await one.query<Session>(LOOK);
      // While this one is in a transaction the first has to get another connection, if it is given one each time.
      await other.query("BEGIN").catch((error) => {
        throw /pooling/.test(String(error)) ? refusal("it takes no transactions") : error;
      });
      const [theirs] = await other.query<Session>(LOOK);
      const isShared = theirs!.pid === mine!.pid || theirs!.name === name;
      const [again] = isShared ? [mine] : await one.query<Session>(LOOK);
      await other.query("COMMIT");
      if (isShared || again!.pid !== mine!.pid || again!.name !== name) {
        throw refusal("two of its connections are one, or one of them is several");
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

/** Whether a connection hears what another one tells while it does nothing itself. */
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
