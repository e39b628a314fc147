import { columnText, nameIn } from "../json_text.ts";
import type { KeyClaim, SharedStore, Store, StoredEvent, StoreRecord } from "../port.ts";
import {
  deliveryIn,
  type DeliveryRow,
  nextDelivery,
  type SqlDialect,
  type SqlValue,
  storeQueries,
} from "../queries.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { noSessionError, StoreError } from "../store_error.ts";
import { unpackText } from "../texts.ts";
import { assertSessions, type Connections, connectionsTo, type OwnConnection } from "./connections.ts";
import { databaseName } from "./database_error.ts";
import { type Leases, openLeases } from "./leases.ts";
import { addRecord, CallList, largeTexts, type StoredText } from "./records.ts";
import { asRefusal, refused } from "./refusals.ts";
import { createTables } from "./schema.ts";

const SLICE = 1000;

const EXPIRED = 50;

/** Options of a store in PostgreSQL. */
export interface PostgresStoreOptions {
  /** Returns milliseconds since the epoch, for expiry. Default: the database's clock. */
  readonly now?: () => number;
  /** Most connections for reading and writing, in addition to one for notifications. Default: 4. */
  readonly maxConnections?: number;
  /** Time limit of a statement in milliseconds, including retries on new connections. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Time limit of one attempt in milliseconds. Default: half of `timeoutMs`. */
  readonly statementMs?: number;
  /** Time limit of a wait for a lock in milliseconds, before a retry. Default: `statementMs`. */
  readonly lockMs?: number;
  /** Time limit of connecting in milliseconds. Default: half of `timeoutMs` or `leaseMs`, whichever is less. */
  readonly connectMs?: number;
  /** Milliseconds until the sessions of an unresponsive opening can be taken over. Default: 10,000. */
  readonly leaseMs?: number;
  /** Renewal interval of the lease in milliseconds. Default: a third of `leaseMs`. */
  readonly renewMs?: number;
  /** A monotonic clock in milliseconds for leases. Default: `performance.now`. */
  readonly clock?: () => number;
  /**
   * Store of archived texts over 16 KiB compressed, the same for all openings; the database is the fallback. Default:
   * none.
   */
  readonly objects?: ObjectStore | undefined;
  /** Called with a sentence when the object store fails, once until it works again. Default: does nothing. */
  readonly onWarning?: (line: string) => void;
}

/** A store in PostgreSQL. */
export interface PostgresStore extends Store {
  readonly shared: SharedStore;
}

/**
 * Opens the store in a PostgreSQL database, 15 or newer: `postgres://user:password@host:port/database`. Any number of
 * processes may have it open. Its tables are created in the schema `tare` if necessary.
 *
 * A commit is one statement, which is resent if its connection is lost, and applied once. If that fails in time, it
 * rejects with a `StoreError` of code `io`; the write may have succeeded. Transaction-level poolers are refused.
 *
 * @example
 * ```ts
 * import { openPostgresStore } from "@tare/session/postgres";
 *
 * async function countSessions(url: string) {
 *   const store = await openPostgresStore(url, { maxConnections: 2 });
 *   const count = await store.countSessions();
 *   await store.close();
 *   return count;
 * }
 * ```
 *
 * @throws {StoreError} if the database can't be reached, refuses, is too old, or has tables of another version.
 */
export async function openPostgresStore(
  url: string,
  options: PostgresStoreOptions = {},
): Promise<PostgresStore> {
  const { timeoutMs = 10_000, maxConnections = 4, leaseMs = 10_000, renewMs = leaseMs / 3 } = options;
  const { statementMs = timeoutMs / 2, lockMs = statementMs, connectMs = Math.min(timeoutMs, leaseMs) / 2 } =
    options;
  const { now, clock = () => performance.now() } = options;
  if (!/^postgres(ql)?:\/\//.test(url)) {
    throw new TypeError(
      "Cannot open a store: its URL isn't valid. Use postgres://user:password@host:port/database",
    );
  }
  const place = databaseName(url);
  const connections = connectionsTo({
    ...{ url, place, maxConnections },
    ...{ timeoutMs, connectMs, statementMs, lockMs },
  });
  try {
    await assertSessions(() => connections.open(), { place, waitMs: timeoutMs });
    const connection = await connections.open();
    try {
      await createTables(connection, place);
      await checkObjects(connection, { place, objects: options.objects, takes: true });
    } finally {
      await connection.close();
    }
    const leases = await openLeases(connections, { leaseMs, renewMs, clock });
    const store = storeOver(connections, {
      ...{ leases, place },
      ...{ objects: options.objects, warn: options.onWarning ?? (() => {}) },
      now: now ?? (() => Date.now() + leases.clockOffsetMs()),
    });
    await store.sweep();
    return store.port;
  } catch (error) {
    await connections.close();
    throw error;
  }
}

function storeOver(
  connections: Connections,
  { leases, place, now, objects, warn }: {
    readonly leases: Leases;
    readonly objects: ObjectStore | undefined;
    readonly warn: (line: string) => void;
    readonly place: string;
    readonly now: () => number;
  },
): { readonly port: PostgresStore; sweep(): Promise<void> } {
  let closing: Promise<void> | undefined;
  const query = async <Row>(sql: string, values: readonly SqlValue[] = []): Promise<Row[]> => {
    if (closing) throw new Error("Cannot use the store: it is closed");
    try {
      return await connections.query<Row>(sql, values);
    } catch (error) {
      throw asRefusal(error);
    }
  };
  const uncertainClaims = new Set<string>();
  leases.onRenewed(async () => {
    const claims = [...uncertainClaims];
    if (claims.length === 0) return;
    await query(
      `WITH lost AS (DELETE FROM tare.keys WHERE claim_id = ANY ($1) AND json IS NULL AND NOT was_claimed)
         UPDATE tare.keys SET owner = '' WHERE claim_id = ANY ($1) AND json IS NULL AND was_claimed`,
      [claims],
    );
    for (const claim of claims) uncertainClaims.delete(claim);
  });
  const first = async <Row>(sql: string, values?: readonly SqlValue[]): Promise<Row | undefined> =>
    (await query<Row>(sql, values))[0];
  const large = objects && largeTexts({ objects, query, warn });
  /** Writes to these sessions, after earlier writes to them and after their large texts are stored. */
  const writeRaw = (
    sessionIds: Iterable<string>,
    fill: (calls: CallList, texts: ReadonlyMap<string, StoredText>) => void,
    records: readonly StoreRecord[] = [],
  ) =>
    leases.inOrder([...new Set(sessionIds)], async () => {
      if (closing) throw new Error("Cannot use the store: it is closed");
      const [commitId, nowMs] = [crypto.randomUUID(), Math.floor(now())];
      let texts = await large?.put(records) ?? new Map();
      for (;;) {
        const writer = await leases.writer();
        const calls = new CallList(writer, { commitId, nowMs });
        fill(calls, texts);
        const { sql, values } = calls.command();
        try {
          await connections.query(sql, values);
          return calls.committed();
        } catch (error) {
          if (refused(error, "alreadyCommitted")) return calls.committed();
          if (large && refused(error, "textDeleted")) {
            texts = await large.put(records);
            continue;
          }
          // An earlier write succeeded though its reply was lost.
          const other = refused(error, "commitCountMismatch");
          const hold = other && writer.positionOf(nameIn(other.about));
          if (!hold) throw error;
          hold.committed(Number(other.more));
        }
      }
    });
  const write = async (...written: Parameters<typeof writeRaw>) => {
    try {
      await writeRaw(...written);
    } catch (error) {
      throw asRefusal(error);
    }
  };
  const commit: Store["commit"] = async (records) => {
    if (records.length === 0) return;
    await write(sessionsOf(records), (calls, texts) => {
      for (const record of records) addRecord(calls, record, texts);
    }, records);
  };
  const holdAndCommit: SharedStore["holdAndCommit"] = async ({ sessionId, fence, records }) => {
    const makes = records.findIndex((record) => record.type === "session" && record.id === sessionId);
    try {
      await writeRaw([sessionId, ...sessionsOf(records)], (calls, texts) => {
        if (makes < 0) calls.holdForCommit(sessionId, fence);
        for (const [at, record] of records.entries()) {
          addRecord(calls, record, texts);
          if (at === makes) calls.holdForCommit(sessionId, fence);
        }
      }, records);
    } catch (error) {
      if (refused(error, "notAvailable")) return undefined;
      throw asRefusal(error);
    }
    return fence + 1;
  };
  const sweep = async () => {
    while (
      !closing &&
      (await first<{ more: boolean }>("SELECT tare.purge_deleted_sessions($1) AS more", [SLICE]))?.more
    );
    await large?.sweep();
  };

  const dialect = postgresDialect(query, { place, objects });
  const port: PostgresStore = {
    shared: { ...leases.shared, holdAndCommit },
    now,
    commit,
    ...storeQueries(dialect, { commit, now }),
    async deleteSession(id) {
      const isThere = await first("SELECT 1 FROM tare.sessions WHERE id = $1", [columnText(id)]);
      if (!isThere) return false;
      const { positionOf } = await leases.writer();
      try {
        await write([id], (calls) => calls.call("delete_session", calls.head(id)));
      } catch (error) {
        if (!(error instanceof Error && error.message === noSessionError(id).message)) throw error;
        // The holder deleted it without learning so. Otherwise another opening was first.
        if (!positionOf(id)) return false;
      }
      leases.forget(id);
      await sweep();
      return true;
    },
    async expireSessions({ kind, beforeMs, maxBytes }) {
      for (let last: number | null | undefined = 0; last !== null && last !== undefined;) {
        last = (await first<{ last: number | null }>(
          "SELECT tare.measure_sessions($1, $2::bigint, $3::integer) AS last",
          [kind, last, EXPIRED],
        ))?.last;
      }
      const idleBeforeMs = Math.floor(beforeMs);
      const limits = [kind, idleBeforeMs, Math.min(Number.MAX_SAFE_INTEGER, Math.floor(maxBytes))];
      for (let expired = 0;;) {
        const row = await first<{ count: number }>(
          "SELECT tare.expire_sessions($1, $2::bigint, $3::bigint, $4::integer) AS count",
          [...limits, EXPIRED],
        );
        if (!row || row.count === 0) return expired;
        expired += row.count;
        await sweep();
      }
    },
    async readEvents(id, { after = 0, types, limit = Infinity } = {}) {
      const rows = await query<{ first: number | null; json: string }>(
        `SELECT e.first, e.json FROM tare.sessions s LEFT JOIN tare.events e ON e.session = s.key
           AND e.first > coalesce((SELECT max(first) FROM tare.events WHERE session = s.key AND first <= $2::bigint + 1), 0) - 1
           AND ($3::text[] IS NULL OR e.types && $3)
         WHERE s.id = $1 ORDER BY e.first LIMIT $4`,
        [
          columnText(id),
          Math.floor(after),
          types?.map(columnText) ?? null,
          Number.isFinite(limit) ? limit + 1 : null,
        ],
      );
      if (rows.length === 0) throw noSessionError(id);
      return eventsIn(rows, { id, place, after, types, limit });
    },
    async claimKey({ scope, key, bodyHash, isAtomic = false }) {
      const claim = crypto.randomUUID();
      for (;;) {
        const { server } = await leases.writer();
        const row = await first<{ state: KeyClaim["state"] | "unknown"; response: string | null }>(
          "SELECT * FROM tare.claim_key($1, $2, $3, $4, $5, $6, $7, $8)",
          [...[scope, key, bodyHash].map(columnText), isAtomic, server, claim, Math.floor(now()), DAY_MS],
        ).catch((error) => {
          uncertainClaims.add(claim);
          throw error;
        });
        const { state, response } = row!;
        if (state === "unknown") leases.loseLease(server);
        else return state === "done" ? { state, response: JSON.parse(response ?? "null") } : { state };
      }
    },
    async releaseKey({ scope, key }) {
      await query(
        "DELETE FROM tare.keys WHERE scope = $1 AND key = $2 AND owner = ANY ($3) AND json IS NULL",
        [
          columnText(scope),
          columnText(key),
          leases.serverIds(),
        ],
      );
    },
    async claimDeliveries({ receivers, limit, forMs }) {
      const names = receivers.map(({ receiver }) => receiver);
      const nowMs = Math.floor(now());
      const rows = await query<DeliveryRow>(
        `WITH chosen AS (
           SELECT d.number FROM unnest($1::text[], $2::integer[]) AS w (receiver, most) CROSS JOIN LATERAL (
             SELECT number, due_at_ms FROM deliveries WHERE receiver = w.receiver AND due_at_ms <= $5
             ORDER BY due_at_ms, number LIMIT w.most FOR UPDATE SKIP LOCKED
           ) AS d ORDER BY d.due_at_ms, d.number LIMIT $3
         ), claimed AS (
           UPDATE deliveries d SET claims = claims + 1, due_at_ms = $5::bigint + $4::bigint
           FROM chosen WHERE d.number = chosen.number
           RETURNING d.id, d.receiver, d.session, d.json, d.created_at_ms AS made, d.due_at_ms AS due, d.claims, d.number
         )
         SELECT claimed.number, claimed.id, receiver, s.id AS session, claimed.json, made, due, claims
         FROM claimed LEFT JOIN sessions s ON s.key = claimed.session ORDER BY claimed.number`,
        [
          names.map(columnText),
          receivers.map(({ limit }) => String(limit)),
          limit,
          Math.ceil(forMs),
          nowMs,
        ],
      );
      const nextInMs = await nextDelivery(dialect, { receivers: names, nowMs });
      return {
        claimed: rows.map((row) => deliveryIn(row, dialect)),
        ...(nextInMs !== undefined && { nextInMs }),
      };
    },
    close: () =>
      closing ??= (large?.close() ?? Promise.resolve())
        .then(() => leases.close()).finally(() => connections.close()),
  };
  return { port, sweep };
}

function sessionsOf(records: readonly StoreRecord[]): string[] {
  return records.flatMap((record) =>
    record.type === "session" ? [record.id] : "sessionId" in record ? [record.sessionId ?? ""] : []
  );
}

/** Newest sessions searched by title without the index. */
const SEARCHED = 5_000;

export function postgresDialect(
  query: SqlDialect["query"],
  { place, objects }: { readonly place: string; readonly objects: ObjectStore | undefined },
): SqlDialect {
  return {
    query,
    parse: (json) => JSON.parse(json),
    list: (parameter) => `unnest(${parameter}::text[]) WITH ORDINALITY AS list (value, key)`,
    contains: (text, parameter) => `strpos(${text} COLLATE "C", ${parameter}::text COLLATE "C") > 0`,
    findsTitles: (parameter) => `tare.trigrams(folded) @> tare.trigrams(${parameter}::text)`,
    searched: SEARCHED,
    last: "h.last",
    fence: "h.fence",
    isHeld: "(h.holder IS NOT NULL AND tare.is_live(h.holder))",
    totals: `(SELECT kind, created_by, day, about, json::text AS json
      FROM (SELECT * FROM totals UNION ALL SELECT * FROM totals_pending) AS every) AS totals`,
    async textIn({ ref, zstd, object }) {
      const bytes = zstd ?? await objects!.get(object!);
      if (!bytes) {
        const rows = await query("SELECT 1 FROM texts WHERE ref = $1 AND object = $2", [ref, object!]);
        if (rows.length === 0) return undefined;
        const reason = `${objects!.name} has no ${object}. Restore it there.`;
        throw new StoreError(
          "corrupt",
          `Cannot read the archived text ${ref} in the store ${place}: ${reason}`,
        );
      }
      const content = unpackText(bytes, ref);
      if (content !== undefined) return content;
      const reason = "it is damaged, its hash doesn't match. Restore it from a backup.";
      throw new StoreError(
        "corrupt",
        `Cannot read the archived text ${ref} in the store ${place}: ${reason}`,
      );
    },
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

function eventsIn(
  rows: readonly { readonly first: number | null; readonly json: string }[],
  { id, place, after, types, limit }: {
    readonly id: string;
    readonly place: string;
    readonly after: number;
    readonly types: readonly string[] | undefined;
    readonly limit: number;
  },
): StoredEvent[] {
  const read: StoredEvent[] = [];
  let next: number | undefined;
  for (const { first, json } of rows) {
    if (first === null) break;
    if (!types && next !== undefined && first !== next) {
      const message =
        `Cannot read the store ${place}: session ${id} lacks event ${next}. Restore it from a backup.`;
      throw new StoreError("corrupt", message);
    }
    const events: StoredEvent["event"][] = JSON.parse(json);
    next = first + events.length;
    for (const [index, event] of events.entries()) {
      const number = first + index;
      if (read.length >= limit) return read;
      if (number > after && (types?.includes(event.type) ?? true)) read.push({ number, event });
    }
  }
  return read;
}

/**
 * Checks that the object store is the one that the database's texts are in. If there is none yet, it `takes` this one.
 *
 * @throws {StoreError} if another one, or none, is given.
 */
export async function checkObjects(
  connection: OwnConnection,
  { place, objects, takes }: {
    readonly place: string;
    readonly objects: ObjectStore | undefined;
    readonly takes: boolean;
  },
): Promise<void> {
  const own = takes ? objects?.name ?? null : null;
  const [row] = await connection.query<{ location: string | null }>(
    "SELECT tare.claim_object_store($1) AS location",
    [
      own,
    ],
  );
  const found = row?.location ?? undefined;
  if (found === undefined || found === objects?.name) return;
  throw new StoreError(
    "io",
    `Cannot open the store ${place}: texts of its archive are in ${found}, and ` +
      `${
        objects ? `it was opened with ${objects.name}` : "it was opened without an object store"
      }. Set TARE_ARCHIVE to ` +
      "that bucket.",
  );
}
