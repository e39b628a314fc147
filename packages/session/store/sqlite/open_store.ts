/**
 * A store in one SQLite file. It uses the SQLite of Deno, Node or Bun, and needs permission to read and write the
 * file's folder.
 *
 * {@linkcode openStore} opens it, {@linkcode openFileContents} its contents for a copy.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { openStore } from "@tare/session/sqlite";
 *
 * const path = `${await Deno.makeTempDir()}/tare.db`;
 * const before = await openStore(path);
 * await before.commit([
 *   { type: "session", kind: "agent", id: "s1", createdAtMs: 0, settings: {} },
 *   { type: "events", sessionId: "s1", after: 0, events: [{ type: "turn_start" }, { type: "turn_end" }] },
 * ]);
 * await before.close();
 *
 * const after = await openStore(path);
 * assertEquals(await after.readEvents("s1", { after: 1 }), [{ number: 2, event: { type: "turn_end" } }]);
 * await after.close();
 * ```
 *
 * @module
 */
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { columnText, nameIn, plainDocument, plainRecord, promiseOf } from "../json_text.ts";
import { Coalescer } from "../../coalescer.ts";
import type {
  KeyClaim,
  KeyRequest,
  SessionLimits,
  SessionRecord,
  Store,
  StoreCopy,
  StoredEvent,
  StoredTotalsRow,
  StoreRecord,
} from "../port.ts";
import {
  columnTextOrNull,
  DELIVERIES,
  deliveryIn,
  type DeliveryRow,
  nextDelivery,
  storeQueries,
  type TextRow,
} from "../queries.ts";
import {
  changedError,
  conflictError,
  noSessionError,
  notClaimedError,
  notRequestedError,
  otherTextError,
  sessionExistsError,
  StoreError,
} from "../store_error.ts";
import { packText, unpackText } from "../texts.ts";
import { type Database, fromStoredJson, openDatabase, openMemory, toStoredJson } from "./database.ts";
import { sqliteDialect } from "./dialect.ts";
import { corruptError, toOpenError, toStoreError } from "./file_error.ts";
import { SCHEMA } from "./schema.ts";

export { openFileContents } from "./contents.ts";

/** Bytes read synchronously: some ten microseconds from memory. */
const PIECE = 64 * 1024;

const PIECES_AT_ONCE = 16;

/**
 * Opens the store in a SQLite file, which this process locks. Creates file and folder if necessary, readable by their
 * owner only, with `<file>-wal` while it is open, `<file>.lock`, and `<file>.reserve` for a reserve.
 *
 * Once a promise has resolved, the write survives the end of the process, including `kill -9`. A power failure or
 * system crash never damages the file, but may undo the newest writes: those since the last checkpoint, which happens
 * every eight megabytes and on close, or since the system flushed its memory, usually every half minute.
 *
 * Changed bytes are detected when records are read, and files up to 64 MiB are checked when they are opened. A damaged
 * log is used up to the damage; `onWarning` reports the loss. If the file is removed or replaced while it is open,
 * writes fail.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { openStore } from "@tare/session/sqlite";
 *
 * const path = `${await Deno.makeTempDir()}/tare.db`;
 * const store = await openStore(path);
 * await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 * await store.close();
 * const later = await openStore(path);
 * assertEquals(await later.countSessions(), 1);
 * await later.close();
 * ```
 *
 * @throws {StoreError} if the file can't be opened, is locked, damaged or no store, or was written by another version.
 */
export function openStore(
  path: string,
  { now = Date.now, ...options }: FileStoreOptions = {},
): Promise<Store> {
  return promiseOf(async () => {
    const database = openDatabase(path, { schema: SCHEMA, ...options });
    try {
      const { store, sweep } = storeIn(database, now);
      await sweep();
      return store;
    } catch (error) {
      database.close();
      throw toOpenError(error, database.path);
    }
  });
}

/** Options of a store in a file. */
export interface FileStoreOptions {
  /** Returns milliseconds since the epoch, for expiry. Default: the system's clock. */
  readonly now?: () => number;
  /** Largest size of the file in bytes, without its log; writes beyond it fail as on a full disk. Default: no limit. */
  readonly maxBytes?: number;
  /** Bytes of disk space reserved for deletions on a full disk: 8 MiB are enough. Default: 0, none. */
  readonly reserveBytes?: number;
  /** Called with a sentence about lost data of a usable store. Default: does nothing. */
  readonly onWarning?: (sentence: string) => void;
}

/**
 * Returns a store in memory, for tests and trials.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryStore } from "@tare/session/sqlite";
 *
 * const store = memoryStore();
 * await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 * await store.commit([{ type: "state", sessionId: "s1", name: "title", value: "Nightly builds" }]);
 * assertEquals((await store.listSessions()).map(({ title }) => title), ["Nightly builds"]);
 * ```
 */
export function memoryStore({ now = Date.now }: Pick<FileStoreOptions, "now"> = {}): Store {
  return storeIn(openMemory(SCHEMA), now).store;
}

/** Everything is synchronous: calls don't interleave. */
function storeIn(
  database: Database,
  now: () => number,
): { readonly store: Store; readonly sweep: () => Promise<void> } {
  const { path } = database;
  const keyOf = (id: string) => {
    const [row] = database.query<{ key: number }>("SELECT key FROM sessions WHERE id = $1", [columnText(id)]);
    if (!row) throw noSessionError(id);
    return row.key;
  };
  // A key of another owner without a response was claimed by a process that has ended.
  const owner = crypto.randomUUID();
  const writeAll = recordWriter(database, { now, keyOf, owner });
  const claimKey = keyClaims(database, { now, owner });
  let isOpen = true;
  const removed = removedSessions(database, () => isOpen);
  let failure: unknown;
  const sweeping = new Coalescer(async () => {
    failure = undefined;
    await removed.sweep();
  }, (error) => {
    if (!(error instanceof StoreError && error.code === "full")) failure = error;
  });
  const sweep = async () => {
    await sweeping.run();
    if (failure !== undefined) throw failure;
  };
  const commit: Store["commit"] = (records) => promiseOf(() => database.transaction(() => writeAll(records)));
  const dialect = sqliteDialect(database);
  const { query, parse } = dialect;

  const store: Store = {
    get damage() {
      return database.damage;
    },
    now,
    commit,
    ...storeQueries(dialect, { commit, now }),
    deleteSession: async (id) => {
      const isRemoved = removed.remove(id);
      if (isRemoved) await sweep();
      return isRemoved;
    },
    expireSessions: async (limits) => {
      const expired = await removed.expire(limits);
      if (expired > 0) await sweep();
      return expired;
    },
    async readEvents(id, { after = 0, types, limit = -1 } = {}) {
      const rows = await query<{ number: number; json: string }>(
        `SELECT number, json FROM events WHERE session = $1 AND number > $2
           ${types ? "AND type IN (SELECT value FROM json_each($4))" : ""} ORDER BY number LIMIT $3`,
        [keyOf(id), after, limit, ...types ? [types.map(columnText)] : []],
      );
      return rows.map(({ number, json }, index) => {
        if (!types && number !== after + index + 1) {
          throw corruptError(path, `session ${id} lacks event ${after + index + 1}`);
        }
        return { number, event: parse(json) as StoredEvent["event"] };
      });
    },
    claimKey: (request) => promiseOf(() => claimKey(request)),
    async releaseKey({ scope, key }) {
      await query("DELETE FROM keys WHERE scope = $1 AND key = $2 AND owner = $3 AND json IS NULL", [
        ...[scope, key].map(columnText),
        owner,
      ]);
    },
    async claimDeliveries({ receivers, limit, forMs }) {
      const nowMs = now();
      const claimed = database.transaction(() => {
        const due = receivers.flatMap(({ receiver, limit: most }) =>
          database.query<DeliveryRow & { due: number }>(
            `${DELIVERIES} WHERE d.receiver = $1 AND d.due_at_ms <= $2 ORDER BY d.due_at_ms, d.number LIMIT $3`,
            [columnText(receiver), nowMs, Math.min(most, limit)],
          )
        ).sort((one, other) => one.due - other.due || one.number - other.number).slice(0, limit);
        for (const { number } of due) {
          database.run(
            "UPDATE deliveries SET due_at_ms = $1, claims = claims + 1 WHERE number = $2",
            nowMs + forMs,
            number,
          );
        }
        return due.sort((one, other) => one.number - other.number)
          .map((row) => deliveryIn({ ...row, due: nowMs + forMs, claims: row.claims + 1 }, dialect));
      });
      const nextInMs = await nextDelivery(dialect, {
        receivers: receivers.map(({ receiver }) => receiver),
        nowMs,
      });
      return { claimed, ...(nextInMs !== undefined && { nextInMs }) };
    },
    ...(!database.isInMemory && { copy: () => copyOf(database) }),
    close: () =>
      promiseOf(() => {
        isOpen = false;
        database.close();
      }),
  };
  return { store, sweep };
}

/**
 * Returns a copy of the file, through a temporary one, so that slow readers don't let the log grow.
 *
 * @throws {StoreError} `locked` during another copy, `full` without disk space.
 */
async function copyOf(database: Database): Promise<StoreCopy> {
  const { descriptor, bytes, isWhole, thaw } = database.freeze();
  let copy: number | undefined;
  try {
    copy = openNameless(`${database.path}.copy-${crypto.randomUUID()}`);
    const piece = new Uint8Array(PIECE);
    for (let at = 0; at < bytes;) {
      // Synchronous: closing another thread's duplicate descriptor would lose the file's lock.
      const read = isWhole() ? readSync(descriptor, piece, 0, Math.min(PIECE, bytes - at), at) : 0;
      if (read === 0) {
        const state = "it was closed meanwhile, or the disk is full. Retry the copy";
        throw new StoreError("io", `Cannot copy the store ${database.path}: ${state}.`);
      }
      for (let written = 0; written < read;) written += writeSync(copy, piece, written, read - written);
      at += read;
      if (at % (PIECES_AT_ONCE * PIECE) === 0) await nextTask();
    }
    return { bytes, stream: streamOf(copy) };
  } catch (error) {
    if (copy !== undefined) closeSync(copy);
    throw toStoreError(error, database.path);
  } finally {
    thaw();
  }
}

function openNameless(path: string): number {
  const opened = openSync(path, "wx+", 0o600);
  try {
    rmSync(path);
    return opened;
  } catch (error) {
    closeSync(opened);
    throw error;
  }
}

function streamOf(file: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      const piece = new Uint8Array(PIECE);
      const read = readSync(file, piece, 0, PIECE, at);
      at += read;
      if (read > 0) return controller.enqueue(piece.subarray(0, read));
      closeSync(file);
      controller.close();
    },
    cancel: () => closeSync(file),
  }, { highWaterMark: 0 });
}

const MINUTE_MS = 60_000;

/** Returns a function that writes records in a transaction. `keyOf` throws if the session doesn't exist. */
function recordWriter(
  { query, run, path }: Database,
  { now, keyOf, owner }: {
    readonly now: () => number;
    readonly keyOf: (id: string) => number;
    readonly owner: string;
  },
): (records: readonly StoreRecord[]) => void {
  const rows = new Map<string, number>();
  const touched = (id: string) => {
    const known = rows.get(id);
    if (known !== undefined) return known;
    const [key, nowMs] = [keyOf(id), now()];
    // Not each time: that would write one more page per streamed part of a reply.
    run(
      `UPDATE heads SET touched_at_ms = $1, is_measured = 0
       WHERE session = $2 AND (touched_at_ms <= $3 OR is_measured)`,
      ...[nowMs, key, nowMs - MINUTE_MS],
    );
    rows.set(id, key);
    return key;
  };
  const optionalKey = (id: string | undefined) => id === undefined ? null : keyOf(id);
  const write = (record: StoreRecord) => {
    switch (record.type) {
      case "session": {
        const { id, kind, by, parent, archiveOf } = record;
        const of = optionalKey(parent);
        const from = of ?? optionalKey(archiveOf);
        const made = run(
          "INSERT INTO sessions (id, json) VALUES ($1, $2) ON CONFLICT DO NOTHING",
          ...[columnText(id), toStoredJson(plainRecord(record))],
        );
        if (made === 0) throw sessionExistsError(id);
        const key = keyOf(id);
        run(
          `INSERT INTO heads (session, kind, created_by, parent, touched_at_ms)
           VALUES ($1, $2, $3, (SELECT session FROM heads WHERE session = $4), $5)`,
          ...[key, kind, columnTextOrNull(by), of, now()],
        );
        if (from === null) return;
        run("INSERT INTO text_references SELECT $1, ref FROM text_references WHERE session = $2", key, from);
        return;
      }
      case "events": {
        const { sessionId, after, events } = record;
        const key = keyOf(sessionId);
        const [{ last = 0 } = {}] = query<{ last: number }>(
          "SELECT number AS last FROM events WHERE session = $1 ORDER BY number DESC LIMIT 1",
          [key],
        );
        if (last !== after) throw conflictError(sessionId, { after, last });
        for (const [index, event] of events.entries()) {
          const values = [key, after + index + 1, columnText(event.type), toStoredJson(event)];
          run("INSERT INTO events VALUES ($1, $2, $3, $4)", ...values);
        }
        touched(sessionId);
        return;
      }
      case "state":
        run(
          "INSERT INTO state VALUES ($1, $2, $3) ON CONFLICT DO UPDATE SET json = excluded.json",
          ...[touched(record.sessionId), columnText(record.name), toStoredJson(record.value)],
        );
        return;
      case "totals": {
        const [maker] = query<{ kind: string; by: string }>(
          "SELECT kind, coalesce(created_by, '') AS by FROM heads WHERE session = $1",
          [touched(record.sessionId)],
        );
        for (const { day, about, totals } of record.added) {
          const place = [columnText(day), maker!.kind, maker!.by, columnText(about)];
          const [stored] = query<{ json: string }>(
            "SELECT json FROM totals WHERE day = $1 AND kind = $2 AND created_by = $3 AND about = $4",
            place,
          );
          const sum = { ...stored && fromStoredJson(stored.json, path) as StoredTotalsRow["totals"] };
          for (const [name, more] of Object.entries(totals)) sum[name] = (sum[name] ?? 0) + more;
          run(
            "INSERT INTO totals VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO UPDATE SET json = excluded.json",
            ...[...place, toStoredJson(sum)],
          );
        }
        return;
      }
      case "names": {
        const key = touched(record.sessionId);
        const names = record.names.map(columnText);
        run(
          "DELETE FROM names WHERE session = $1 AND name NOT IN (SELECT value FROM json_each($2))",
          ...[key, names],
        );
        run(
          "INSERT INTO names SELECT value, $1 FROM json_each($2) WHERE true ON CONFLICT DO NOTHING",
          ...[key, names],
        );
        run(
          `UPDATE heads SET name_order = 1 + (SELECT coalesce(max(name_order), 0) FROM heads WHERE name_order > 0)
           WHERE session = $1`,
          key,
        );
        return;
      }
      case "archive": {
        const { sessionId, ref, content } = record;
        const key = touched(sessionId);
        const [row] = query<TextRow>("SELECT ref, zstd FROM texts WHERE ref = $1", [ref]);
        const stored = row?.zstd && unpackText(row.zstd, ref);
        if (typeof stored === "string" && stored !== content) throw otherTextError(ref);
        if (typeof stored !== "string") {
          run(
            "INSERT INTO texts (ref, zstd) VALUES ($1, $2) ON CONFLICT DO UPDATE SET zstd = excluded.zstd",
            ...[ref, packText(content)],
          );
        }
        run("INSERT INTO text_references VALUES ($1, $2) ON CONFLICT DO NOTHING", key, ref);
        return;
      }
      case "document": {
        const { kind, id, sessionId, replaces } = record;
        const place = [columnText(kind), columnText(id)];
        const json = toStoredJson(plainDocument(record));
        if (replaces !== undefined) {
          const [stored] = query<{ json: string }>(
            "SELECT json FROM documents WHERE kind = $1 AND id = $2",
            place,
          );
          const wanted = replaces ? toStoredJson(plainDocument(replaces)) : undefined;
          if (stored?.json !== wanted && stored?.json !== json) throw changedError(kind, id);
        }
        run(
          `INSERT INTO documents VALUES ($1, $2, $3, $4)
           ON CONFLICT DO UPDATE SET session = excluded.session, json = excluded.json`,
          ...[...place, optionalKey(sessionId), json],
        );
        return;
      }
      case "delete_document":
        run(
          "DELETE FROM documents WHERE kind = $1 AND id = $2",
          ...[record.kind, record.id].map(columnText),
        );
        return;
      case "response": {
        const { scope, key, response, sessionId } = record;
        const changed = run(
          `UPDATE keys SET json = $1, session = $2, touched_at_ms = $3
           WHERE scope = $4 AND key = $5 AND owner = $6 AND json IS NULL`,
          ...[toStoredJson(response), optionalKey(sessionId), now()],
          ...[columnText(scope), columnText(key), owner],
        );
        if (changed === 0) throw notClaimedError({ scope, key });
        return;
      }
      case "delivery": {
        const { id, receiver, sessionId, value, dueInMs } = record;
        const createdAtMs = now();
        run(
          `INSERT INTO deliveries (id, receiver, session, json, created_at_ms, due_at_ms) VALUES ($1, $2, $3, $4, $5, $6)
           ON CONFLICT (id) DO UPDATE SET receiver = excluded.receiver, session = excluded.session, json = excluded.json,
             due_at_ms = excluded.due_at_ms, claims = claims + 1`,
          ...[columnText(id), columnText(receiver), optionalKey(sessionId)],
          ...[toStoredJson(value), createdAtMs, createdAtMs + dueInMs],
        );
        return;
      }
      case "delivery_attempt": {
        const { id, claim, value, dueInMs } = record;
        run(
          "UPDATE deliveries SET json = $1, due_at_ms = $2 WHERE id = $3 AND claims = $4",
          ...[toStoredJson(value), dueInMs === undefined ? null : now() + dueInMs, columnText(id), claim],
        );
        return;
      }
      case "delete_deliveries":
        run("DELETE FROM deliveries WHERE receiver = $1", columnText(record.receiver));
        return;
      case "answer":
        throw notRequestedError(record.requestId);
    }
  };
  return (records) => {
    rows.clear();
    records.forEach(write);
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

function keyClaims(
  { query, run, transaction, path }: Database,
  { now, owner }: { readonly now: () => number; readonly owner: string },
): (request: KeyRequest) => KeyClaim {
  return ({ scope, key, bodyHash, isAtomic = false }) => {
    const nowMs = now();
    const place = [columnText(scope), columnText(key)];
    const hash = columnText(bodyHash);
    return transaction((): KeyClaim => {
      run(
        "DELETE FROM keys WHERE touched_at_ms <= $1 AND (json IS NOT NULL OR owner <> $2)",
        ...[nowMs - DAY_MS, owner],
      );
      const [row] = query<{ body_hash: string; owner: string; is_atomic: number; json: string | null }>(
        "SELECT body_hash, owner, is_atomic, json FROM keys WHERE scope = $1 AND key = $2",
        place,
      );
      if (!row) {
        run(
          `INSERT INTO keys (scope, key, body_hash, owner, is_atomic, touched_at_ms)
           VALUES ($1, $2, $3, $4, $5, $6)`,
          ...[...place, hash, owner, isAtomic, nowMs],
        );
        return { state: "new" };
      }
      if (row.body_hash !== hash) return { state: "mismatch" };
      if (row.json !== null) return { state: "done", response: fromStoredJson(row.json, path) };
      if (row.owner === owner) return { state: "running" };
      run(
        "UPDATE keys SET owner = $3, touched_at_ms = $4 WHERE scope = $1 AND key = $2",
        ...place,
        owner,
        nowMs,
      );
      return { state: row.is_atomic ? "new" : "interrupted" };
    });
  };
}

/** Events and texts deleted per transaction: some milliseconds' work. */
const SLICE = 250;

const MEASURED = 50;

/** Pages returned to the system per step: at most about thirty milliseconds' work. */
const PAGES = 512;

/** Prefix of the ids of deleted sessions until they are freed. */
const DELETED_PREFIX = "deleted:";

function removedSessions(database: Database, isOpen: () => boolean) {
  const { query, run, transaction, release } = database;
  const pause = database.isInMemory ? () => Promise.resolve() : nextTask;
  const remove = (id: string) =>
    release(() => {
      const [row] = query<{ readonly key: number }>(
        `UPDATE sessions SET id = '${DELETED_PREFIX}' || hex(randomblob(16)) WHERE id = $1 RETURNING key`,
        [columnText(id)],
      );
      for (const table of row ? ["heads", "names", "documents", "keys", "deliveries"] : []) {
        run(`DELETE FROM ${table} WHERE session = $1`, row!.key);
      }
      return row !== undefined;
    });
  const measureAll = async (kind: SessionRecord["kind"]) => {
    for (let last = 0; isOpen(); await pause()) {
      const rows = query<{ readonly session: number }>(
        `SELECT session FROM heads WHERE kind = $1 AND session > $2 AND NOT is_measured ORDER BY session LIMIT ${MEASURED}`,
        [kind, last],
      );
      if (rows.length === 0) return;
      last = rows.at(-1)!.session;
      transaction(() => {
        for (const { session } of rows) {
          run(
            `UPDATE heads SET is_measured = 1, bytes =
               (SELECT coalesce(sum(length(json)), 0) FROM events WHERE session = $1) +
               (SELECT coalesce(sum(length(json)), 0) FROM state WHERE session = $1) +
               (SELECT coalesce(sum(length(zstd)), 0) FROM text_references JOIN texts USING (ref) WHERE session = $1)
             WHERE session = $1`,
            session,
          );
        }
      });
    }
  };
  const freeSlice = (key: number) => {
    const removed = release(() =>
      [["events", "number"], ["text_references", "ref"]].reduce((sum, [table, name]) =>
        sum + run(
          `DELETE FROM ${table} WHERE session = $1
             AND ${name} IN (SELECT ${name} FROM ${table} WHERE session = $1 LIMIT ${SLICE})`,
          key,
        ), 0)
    );
    // The rest is deleted by the schema's cascades.
    if (removed === 0) release(() => run("DELETE FROM sessions WHERE key = $1", key));
  };
  return {
    remove,
    async expire({ kind, beforeMs, maxBytes }: SessionLimits) {
      await measureAll(kind);
      let expired = 0;
      while (isOpen()) {
        const [found] = query<{ readonly id: string }>(
          `SELECT id FROM (
             SELECT session, touched_at_ms FROM heads WHERE kind = $1 ORDER BY touched_at_ms, session LIMIT 1
           ) JOIN sessions ON key = session
           WHERE touched_at_ms < $2 OR (SELECT bytes FROM session_counts WHERE kind = $1) > $3`,
          [kind, beforeMs, maxBytes],
        );
        if (!found || !remove(nameIn(found.id))) break;
        expired++;
        await pause();
      }
      return expired;
    },
    /** Includes sessions deleted by earlier processes. */
    async sweep() {
      try {
        for (; isOpen(); await pause()) {
          const [deleted] = query<{ readonly key: number }>(
            `SELECT key FROM sessions WHERE id >= '${DELETED_PREFIX}' AND id < '${DELETED_PREFIX}~'
               AND NOT EXISTS (SELECT 1 FROM heads WHERE session = key) LIMIT 1`,
          );
          if (deleted) freeSlice(deleted.key);
          else if (database.shrink(PAGES) === 0) return;
        }
      } finally {
        database.restock();
      }
    },
  };
}

function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
