/**
 * A store in one SQLite file, behind the same port as the others. It has no dependencies beside the SQLite that Deno,
 * Node and Bun bring, and needs to read and write the file's folder.
 *
 * {@linkcode openStore} opens it, {@linkcode openFileContents} all that it holds, to be copied.
 *
 * README.md shows it in use.
 *
 * @module
 */
import { type Archive, archiveRef } from "@tare/prune";
import { closeSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import {
  columnText,
  documentJson,
  intact,
  nameIn,
  plainRecord,
  promiseOf,
  searchedJson,
} from "../json_text.ts";
import { Coalescer } from "../../coalescer.ts";
import type {
  ListedSession,
  SessionRecord,
  Store,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredSums,
  StoreRecord,
} from "../port.ts";
import {
  changedError,
  conflictError,
  noSessionError,
  notAskedError,
  notClaimedError,
  sessionExistsError,
  StoreError,
} from "../store_error.ts";
import {
  type Database,
  fromStoredJson,
  openDatabase,
  openMemory,
  type StoredJson,
  toStoredJson,
} from "./database.ts";
import { corruptError, toOpenError, toStoreError } from "./file_error.ts";
import { MIGRATIONS, NEEDS_ATTENTION } from "./migrations.ts";
import { type StoredTexts, storedTexts } from "./stored_texts.ts";

export { openFileContents } from "./contents.ts";

/** Bytes that are read at a time, while everything else waits: some ten microseconds if the system has them in memory. */
const PIECE = 64 * 1024;

/** Pieces that are copied at a time, while everything else waits. */
const PIECES_AT_ONCE = 16;

/**
 * Opens the store in a SQLite file, for this process alone. File and folder are made if they aren't there, readable by
 * their owner alone; beside the file there are `<file>-wal` while it is open, which belongs to it, and `<file>.lock`,
 * which is empty, and with a reserve `<file>.reserve`. A text that several sessions archive is stored once, compressed.
 *
 * What was written survives the end of the process (`kill -9` too) once the promise has resolved. A power failure
 * or a crash of the system never damages the file, but may take back the last writes, the newest first:
 * those since the log was last copied into the file, which happens every 1,000 pages (some thousand small events) and
 * on close, or since the system wrote its memory to the disk by itself, in general every half minute.
 *
 * Every record is checked when it is read: if its bytes have changed on the disk, that is an error, never another
 * content. A file of up to 64 MiB is also checked as a whole when it is opened. Of a damaged log SQLite uses what stands
 * before the damage: the rest is lost, which `onWarning` is told. If the file is removed or replaced while it is open,
 * the next write fails and nothing more is taken. What was deleted makes the file smaller.
 *
 * @throws {StoreError} if the file can't be opened, another process has it open, it is damaged or no store, or a
 * newer program wrote it.
 */
export function openStore(
  path: string,
  { now = Date.now, ...options }: {
    /** Milliseconds since the epoch; idempotency keys expire by it. Default: the system's clock. */
    readonly now?: () => number;
    /**
     * Largest size of the file in bytes, its log not counted; a write that needs more fails as if the disk were full.
     * Default: no limit.
     */
    readonly maxBytes?: number;
    /**
     * Room on the disk that a file beside the store's holds, so that sessions can be deleted on a full disk: 8 MiB are
     * enough. Default: 0, none.
     */
    readonly reserveBytes?: number;
    /** Told in a sentence of what is missing though the store can be used. Default: nobody is. */
    readonly onWarning?: (sentence: string) => void;
  } = {},
): Promise<Store> {
  return promiseOf(async () => {
    const database = openDatabase(path, { migrations: MIGRATIONS, ...options });
    try {
      const { store, sweep } = storeIn(database, { now });
      // Of what an earlier process removed.
      await sweep();
      return store;
    } catch (error) {
      database.close();
      throw toOpenError(error, database.path);
    }
  });
}

/** Returns a store in memory, for tests and trials: it takes no file and ends with the process. */
export function memoryStore(
  { now = Date.now }: {
    /** Milliseconds since the epoch; idempotency keys expire by it. Default: the system's clock. */
    readonly now?: () => number;
  } = {},
): Store {
  return storeIn(openMemory(MIGRATIONS), { now }).store;
}

/** Nothing here waits: a call has had its effect when it returns its promise, so that calls never come between. */
function storeIn(
  database: Database,
  { now }: { readonly now: () => number },
): { readonly store: Store; readonly sweep: () => Promise<void> } {
  const { path } = database;
  const selectPlace = database.prepare<SessionRow>(
    "SELECT key, coalesce((SELECT max(number) FROM events WHERE session = key), 0) AS last FROM sessions WHERE id = ?",
  );
  const selectKey = database.prepare<{ key: number }>("SELECT key FROM sessions WHERE id = ?");
  const placeOf = (id: string) => found(id, selectPlace.get(id));
  const keyOf = (id: string) => found(id, selectKey.get(id)).key;
  const keys = idempotencyKeys(database, { now, keyOf });
  const texts = storedTexts(database);
  const deliveries = storedDeliveries(database, { now, keyOf });
  const writeAll = recordWriter(database, {
    ...{ now, keyOf, placeOf, deliveries },
    respond: keys.respond,
    putText: texts.put,
  });
  let isOpen = true;
  const removed = removedSessions(database, () => isOpen);
  let failure: unknown;
  const sweeping = new Coalescer(async () => {
    failure = undefined;
    await removed.sweep();
  }, (error) => {
    // Without room on the disk the next sweep does it.
    if (!(error instanceof StoreError && error.code === "full")) failure = error;
  });
  const sweep = async () => {
    await sweeping.run();
    if (failure !== undefined) throw failure;
  };
  const commit: Store["commit"] = (records) => promiseOf(() => database.transaction(() => writeAll(records)));

  const selectSession = database.prepare<StoredJson>("SELECT json, crc FROM sessions WHERE id = ?");
  const pages = new Map<string, ReturnType<typeof listStatement>>();
  const selectSum = database.prepare<
    { kind: SessionRecord["kind"]; by: string; day: string; about: string } & StoredJson
  >(
    `SELECT kind, made_by AS by, day, about, json, crc FROM sums
     WHERE day BETWEEN ? AND ? AND (?3 IS NULL OR kind = ?3) AND (?4 IS NULL OR made_by = ?4)`,
  );
  const selectCount = database.prepare<{ count: number }>(
    "SELECT coalesce(sum(sessions), 0) AS count FROM counted WHERE ?1 IS NULL OR kind = ?1",
  );
  const selectIdle = database.prepare<{ id: string }>(
    `SELECT id FROM activity JOIN sessions ON key = session WHERE kind = ? AND touched_at_ms <= ?
     ORDER BY touched_at_ms, session LIMIT ?`,
  );
  const selectNamed = database.prepare<{ id: string }>(
    `SELECT sessions.id FROM json_each(?) AS wanted JOIN names ON name = wanted.value
       JOIN activity USING (session) JOIN sessions ON sessions.key = session
     GROUP BY session ORDER BY min(wanted.key), named DESC LIMIT ?`,
  );
  const select = "SELECT number, json, crc FROM events WHERE session = ? AND number > ?";
  const selectAll = database.prepare<StoredJson & { number: number }>(`${select} ORDER BY number LIMIT ?`);
  const selectTypes = database.prepare<StoredJson & { number: number }>(
    `${select} AND type IN (SELECT value FROM json_each(?)) ORDER BY number LIMIT ?`,
  );
  const selectState = database.prepare<StoredJson>(
    "SELECT json, crc FROM state WHERE session = ? AND name = ?",
  );
  const selectNeeding = database.prepare<StoredJson & { id: string }>(
    `SELECT id, state.json, state.crc FROM state JOIN activity USING (session) JOIN sessions ON key = session
     WHERE name = ? AND ${NEEDS_ATTENTION.replace("json", "state.json")}`,
  );
  const selectDocument = database.prepare<StoredJson>(
    "SELECT json, crc FROM documents WHERE kind = ? AND id = ?",
  );
  const selectDocuments = database.prepare<StoredJson & { id: string }>(
    "SELECT id, json, crc FROM documents WHERE kind = ? ORDER BY id",
  );
  const value = (row: StoredJson | undefined) => row && fromStoredJson(row, path);

  const store: Store = {
    get damage() {
      return database.damage;
    },
    now,
    commit,
    getSession: (id) => promiseOf(() => value(selectSession.get(id)) as SessionRecord | undefined),
    listSessions: ({ kind, limit = 100, after, search = "", by, forks = true } = {}) =>
      promiseOf(() => {
        const from = after === undefined ? Number.MAX_SAFE_INTEGER : keyOf(after);
        const which = { kind, isOfKey: by !== undefined, forks, isSought: search !== "" };
        const name = JSON.stringify(which);
        const page = pages.get(name) ?? listStatement(database, which);
        pages.set(name, page);
        const of = by === undefined ? [] : [columnText(by)];
        const rows = page.all(from, limit, ...of, ...search === "" ? [] : [searchedJson(search)]);
        return rows.map(({ last, totals, totalsCrc, title, titleCrc, ...stored }): ListedSession => ({
          ...value(stored) as SessionRecord,
          lastEvent: last,
          ...(totals !== null && { totals: value({ json: totals, crc: totalsCrc }) }),
          ...(title !== null && { title: value({ json: title, crc: titleCrc }) }),
        }));
      }),
    readSums: ({ kind = null, by = null, from, to }) =>
      promiseOf(() =>
        selectSum.all(columnText(from), columnText(to), kind, by && columnText(by)).map((
          { kind, by, day, about, ...stored },
        ): StoredSums => ({
          ...{ kind, day: nameIn(day), about: nameIn(about) },
          ...(by !== "" && { by: nameIn(by) }),
          sums: value(stored) as StoredSums["sums"],
        }))
      ),
    countSessions: (kind) => promiseOf(() => selectCount.get(kind ?? null)!.count),
    idleSessions: ({ kind, beforeMs, limit }) =>
      promiseOf(() => selectIdle.all(kind, beforeMs, limit).map(({ id }) => id)),
    findNamed: (names, limit = 16) =>
      promiseOf(() =>
        selectNamed.all(JSON.stringify(names.map(columnText)), limit).map(({ id }) => ({ id, fence: 0 }))
      ),
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
    readEvents: (id, { after = 0, types, limit = -1 } = {}) =>
      promiseOf(() => {
        const session = keyOf(id);
        const rows = types
          ? selectTypes.all(session, after, JSON.stringify(types), limit)
          : selectAll.all(session, after, limit);
        return rows.map(({ number, ...stored }, index) => {
          if (!types && number !== after + index + 1) {
            throw corruptError(path, `session ${id} lacks event ${after + index + 1}`);
          }
          return { number, event: value(stored) as StoredEvent["event"] };
        });
      }),
    lastEvent: (id) => promiseOf(() => placeOf(id).last),
    readState: (id, name) => promiseOf(() => value(selectState.get(keyOf(id), name))),
    sessionsWith: (name) =>
      promiseOf(() => selectNeeding.all(name).map(({ id, ...stored }) => ({ id, value: value(stored) }))),
    getDocument: (kind, id) =>
      promiseOf(() => value(selectDocument.get(kind, id)) as StoredDocument | undefined),
    listDocuments: (kind, damaged) =>
      promiseOf(() => intact(selectDocuments.all(kind), (row) => value(row) as StoredDocument, damaged)),
    archive: (sessionId): Archive => ({
      async put(content) {
        const ref = await archiveRef(content);
        await commit([{ type: "archive", sessionId, ref, content }]);
        return ref;
      },
      get: (ref) => promiseOf(() => texts.get(sessionId, [ref]).get(ref)),
    }),
    readTexts: (id, refs) => promiseOf(() => texts.get(id, refs)),
    claimKey: (request) => promiseOf(() => keys.claim(request)),
    releaseKey: (key) => promiseOf(() => keys.release(key)),
    claimDeliveries: (wanted) => promiseOf(() => deliveries.claim(wanted)),
    listDeliveries: (receiver, options) => promiseOf(() => deliveries.list(receiver, options)),
    getDelivery: (id) => promiseOf(() => deliveries.get(id)),
    expireDeliveries: (limits) => promiseOf(() => deliveries.expire(limits)),
    ...(!database.isInMemory && { copy: () => copyOf(database) }),
    close: () =>
      promiseOf(() => {
        isOpen = false;
        database.close();
      }),
  };
  return { store, sweep };
}

const KINDS = ["agent", "gateway"] as const satisfies readonly SessionRecord["kind"][];

/** So many of the newest sessions are looked through for a title: some hundredths of a second. */
const LOOKED_THROUGH = 10_000;

/** Which sessions a list holds. */
interface Listed {
  readonly kind: SessionRecord["kind"] | undefined;
  /** Whether only those are wanted that were made with the key `?3`. */
  readonly isOfKey: boolean;
  readonly forks: boolean;
  /** Whether only those are wanted whose title holds the value behind that. */
  readonly isSought: boolean;
}

/**
 * A list of the newest sessions in front of a key (`?1`), at most `?2`: of each kind by an index, so that it takes as long
 * however many there are.
 */
function listStatement(database: Database, { kind: wanted, isOfKey, forks, isSought }: Listed) {
  const also = (isOfKey ? " AND made_by = ?3" : "") + (forks ? "" : " AND parent IS NULL");
  const limit = isSought ? LOOKED_THROUGH : "?2";
  const each = KINDS.filter((kind) => wanted === undefined || kind === wanted).map((kind) =>
    `SELECT * FROM (SELECT session FROM activity WHERE kind = '${kind}' AND session < ?1${also}
       ORDER BY session DESC LIMIT ${limit})`
  );
  const newest = `SELECT session FROM (${
    each.join(" UNION ALL ")
  } ORDER BY session DESC LIMIT ${limit}) AS page`;
  const page = isSought
    ? `${newest} CROSS JOIN state INDEXED BY titles USING (session)
       WHERE name = 'title' AND instr(folded(json), ${
      isOfKey ? "?4" : "?3"
    }) > 0 ORDER BY session DESC LIMIT ?2`
    : newest;
  return database.prepare<
    & StoredJson
    & { last: number; totals: string | null; totalsCrc: number; title: string | null; titleCrc: number }
  >(
    `SELECT sessions.json, sessions.crc, totals.json AS totals, totals.crc AS totalsCrc,
       titles.json AS title, titles.crc AS titleCrc,
       coalesce((SELECT max(number) FROM events WHERE session = key), 0) AS last
     FROM (${page}) AS page CROSS JOIN sessions ON key = page.session
       LEFT JOIN state AS totals ON totals.session = key AND totals.name = 'totals'
       LEFT JOIN state AS titles ON titles.session = key AND titles.name = 'title'
     ORDER BY page.session DESC`,
  );
}

function found<Row>(id: string, row: Row | undefined): Row {
  if (!row) throw noSessionError(id);
  return row;
}

/**
 * Copies the file as it is now into a temporary one, from which it is read: however slow a reader is, the log grows no
 * longer than the copying takes.
 *
 * @throws {StoreError} `locked` if there is another copy under way, `full` if the disk has no room for one.
 */
async function copyOf(database: Database): ReturnType<NonNullable<Store["copy"]>> {
  const { descriptor, bytes, isWhole, thaw } = database.freeze();
  let copy: number | undefined;
  try {
    copy = openNameless(`${database.path}.copy-${crypto.randomUUID()}`);
    const piece = new Uint8Array(PIECE);
    for (let at = 0; at < bytes;) {
      // By another thread it would be read through a duplicate of the descriptor, whose end would lose the file's lock.
      const read = isWhole() ? readSync(descriptor, piece, 0, Math.min(PIECE, bytes - at), at) : 0;
      if (read === 0) {
        const state = "it was closed meanwhile, or the disk is full. Copy it again";
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

/** Opens a new file that is gone once it is closed, whatever ends the process. */
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

/** Returns the bytes of an open file, which is closed at their end. */
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

/** A session's row, and the number of its last event. */
interface SessionRow {
  readonly key: number;
  readonly last: number;
}

/** Makes a function that writes records, inside a transaction. `keyOf` and `placeOf` throw if there is no such session. */
function recordWriter(
  database: Database,
  { now, keyOf, placeOf, deliveries, respond, putText }: {
    readonly now: () => number;
    readonly deliveries: Pick<ReturnType<typeof storedDeliveries>, "put" | "attempted" | "remove">;
    readonly keyOf: (id: string) => number;
    readonly placeOf: (id: string) => SessionRow;
    readonly respond: ReturnType<typeof idempotencyKeys>["respond"];
    readonly putText: StoredTexts["put"];
  },
): (records: readonly StoreRecord[]) => void {
  const insertSession = database.prepare(
    "INSERT INTO sessions (id, json, crc) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const insertActivity = database.prepare(
    `INSERT INTO activity (session, kind, made_by, parent, touched_at_ms)
     VALUES (last_insert_rowid(), ?, ?, (SELECT session FROM activity WHERE session = ?), ?)`,
  );
  const copyArchive = database.prepare(
    "INSERT INTO archived SELECT ?1, ref FROM archived WHERE session = ?2",
  );
  // Writing it each time would take a page more of every word of every answer.
  const touchRow = database.prepare(
    `UPDATE activity SET touched_at_ms = ?, is_weighed = 0
     WHERE session = ? AND (touched_at_ms <= ? OR is_weighed)`,
  );
  const touch = (key: number) => {
    const nowMs = now();
    touchRow.run(nowMs, key, nowMs - MINUTE_MS);
  };
  /** Sessions that this transaction has touched, with their rows. */
  const rows = new Map<string, number>();
  /** The row of a session that is changed. */
  const touched = (id: string) => {
    const key = rows.get(id) ?? keyOf(id);
    if (!rows.has(id)) touch(key);
    rows.set(id, key);
    return key;
  };
  const insertEvent = database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)");
  const upsertState = database.prepare(
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json, crc = excluded.crc",
  );
  const selectMaker = database.prepare<{ kind: string; by: string }>(
    "SELECT kind, coalesce(made_by, '') AS by FROM activity WHERE session = ?",
  );
  const selectSum = database.prepare<StoredJson>(
    "SELECT json, crc FROM sums WHERE day = ? AND kind = ? AND made_by = ? AND about = ?",
  );
  const upsertSum = database.prepare(
    "INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json, crc = excluded.crc",
  );
  const deleteNames = database.prepare(
    "DELETE FROM names WHERE session = ? AND name NOT IN (SELECT value FROM json_each(?))",
  );
  const insertNames = database.prepare(
    "INSERT INTO names SELECT value, ? FROM json_each(?) WHERE true ON CONFLICT DO NOTHING",
  );
  const countNaming = database.prepare(
    `UPDATE activity SET named = 1 + (SELECT coalesce(max(named), 0) FROM activity WHERE named > 0)
     WHERE session = ?`,
  );
  const upsertDocument = database.prepare(
    `INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
     SET session = excluded.session, json = excluded.json, crc = excluded.crc`,
  );
  const selectJson = database.prepare<{ json: string }>(
    "SELECT json FROM documents WHERE kind = ? AND id = ?",
  );
  const deleteDocument = database.prepare("DELETE FROM documents WHERE kind = ? AND id = ?");
  const write = (record: StoreRecord) => {
    switch (record.type) {
      case "session": {
        const { id, kind, by, parent, archiveOf } = record;
        const { json, crc } = toStoredJson(plainRecord(record));
        const of = parent === undefined ? undefined : keyOf(parent);
        const from = of ?? (archiveOf === undefined ? undefined : keyOf(archiveOf));
        if (insertSession.run(id, json, crc) === 0) throw sessionExistsError(id);
        insertActivity.run(kind, by === undefined ? null : columnText(by), of ?? null, now());
        if (from !== undefined) copyArchive.run(keyOf(id), from);
        return;
      }
      case "events": {
        const { sessionId, after, events } = record;
        const { key, last } = placeOf(sessionId);
        if (last !== after) throw conflictError(sessionId, { after, last });
        for (const [index, event] of events.entries()) {
          const { json, crc } = toStoredJson(event);
          insertEvent.run(key, after + index + 1, event.type, json, crc);
        }
        if (!rows.has(sessionId)) touch(key);
        rows.set(sessionId, key);
        return;
      }
      case "state": {
        const { json, crc } = toStoredJson(record.value);
        upsertState.run(touched(record.sessionId), record.name, json, crc);
        return;
      }
      case "sums": {
        const key = touched(record.sessionId);
        const { kind, by } = selectMaker.get(key)!;
        for (const { day, about, sums } of record.added) {
          const place = [columnText(day), kind, by, columnText(about)];
          const kept = selectSum.get(...place);
          const sum = { ...kept && fromStoredJson(kept, database.path) as StoredSums["sums"] };
          for (const [name, more] of Object.entries(sums)) sum[name] = (sum[name] ?? 0) + more;
          const { json, crc } = toStoredJson(sum);
          upsertSum.run(...place, json, crc);
        }
        return;
      }
      case "names": {
        const key = touched(record.sessionId);
        const names = JSON.stringify(record.names.map(columnText));
        deleteNames.run(key, names);
        insertNames.run(key, names);
        countNaming.run(key);
        return;
      }
      case "archive":
        return putText(touched(record.sessionId), record);
      case "document": {
        const { kind, id, sessionId, value, replaces } = record;
        const { json, crc } = toStoredJson({ kind, id, sessionId, value });
        if (replaces !== undefined) {
          const stored = selectJson.get(kind, id)?.json;
          const wanted = replaces ? documentJson(replaces) : undefined;
          if (stored !== wanted && stored !== json) throw changedError(kind, id);
        }
        upsertDocument.run(kind, id, sessionId === undefined ? null : keyOf(sessionId), json, crc);
        return;
      }
      case "no_document":
        deleteDocument.run(record.kind, record.id);
        return;
      case "response":
        return respond(record);
      case "delivery":
        return deliveries.put(record);
      case "attempted":
        return deliveries.attempted(record);
      case "no_deliveries":
        return deliveries.remove(record.receiver);
      case "answer":
        // Nobody else has the file open.
        throw notAskedError(record.requestId);
    }
  };
  return (records) => {
    rows.clear();
    records.forEach(write);
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;

interface KeyRow {
  readonly body_hash: string;
  readonly owner: string;
  readonly is_atomic: number;
  readonly json: string | null;
  readonly crc: number;
}

/** Keys of requests that were sent before. `keyOf` gives a session's row, or throws. */
function idempotencyKeys(
  database: Database,
  { now, keyOf }: {
    readonly now: () => number;
    readonly keyOf: (sessionId: string) => number;
  },
) {
  // A key without a response that has another owner was claimed by a process that has ended.
  const owner = crypto.randomUUID();
  const where = "WHERE scope = ? AND key = ?";
  const mine = `${where} AND owner = ? AND json IS NULL`;
  const expire = database.prepare(
    "DELETE FROM idempotency_keys WHERE touched_at_ms <= ? AND (json IS NOT NULL OR owner <> ?)",
  );
  const select = database.prepare<KeyRow>(
    `SELECT body_hash, owner, is_atomic, json, crc FROM idempotency_keys ${where}`,
  );
  const insert = database.prepare(
    `INSERT INTO idempotency_keys (scope, key, body_hash, owner, is_atomic, touched_at_ms) VALUES (?, ?, ?, ?, ?, ?)`,
  );
  const take = database.prepare(`UPDATE idempotency_keys SET owner = ?, touched_at_ms = ? ${where}`);
  const finish = database.prepare(
    `UPDATE idempotency_keys SET json = ?, crc = ?, session = ?, touched_at_ms = ? ${mine}`,
  );
  const remove = database.prepare(`DELETE FROM idempotency_keys ${mine}`);

  return {
    /** Takes a key, or says who has it. */
    claim(
      { scope, key, bodyHash, isAtomic = false }: Parameters<Store["claimKey"]>[0],
    ): Awaited<ReturnType<Store["claimKey"]>> {
      const nowMs = now();
      return database.transaction(() => {
        expire.run(nowMs - DAY_MS, owner);
        const row = select.get(scope, key);
        if (!row) {
          insert.run(scope, key, bodyHash, owner, isAtomic ? 1 : 0, nowMs);
          return { state: "new" };
        }
        const { json, crc } = row;
        if (row.body_hash !== bodyHash) return { state: "mismatch" };
        if (json !== null) return { state: "done", response: fromStoredJson({ json, crc }, database.path) };
        if (row.owner === owner) return { state: "running" };
        take.run(owner, nowMs, scope, key);
        return { state: row.is_atomic ? "new" : "interrupted" };
      });
    },
    /** Keeps the response, inside a transaction. @throws if the key isn't claimed. */
    respond({ scope, key, response, sessionId }: Extract<StoreRecord, { type: "response" }>) {
      const { json, crc } = toStoredJson(response);
      const session = sessionId === undefined ? null : keyOf(sessionId);
      const changed = finish.run(json, crc, session, now(), scope, key, owner);
      if (changed === 0) throw notClaimedError({ scope, key });
    },
    /** Forgets a key that was claimed. */
    release({ scope, key }: Parameters<Store["releaseKey"]>[0]) {
      database.transaction(() => remove.run(scope, key, owner));
    },
  };
}

interface DeliveryRow extends StoredJson {
  readonly number: number;
  readonly id: string;
  readonly receiver: string;
  readonly sessionId: string | null;
  readonly made: number;
  readonly due: number | null;
  readonly claims: number;
}

/** What somebody outside is to be told. `keyOf` gives a session's row, or throws. */
function storedDeliveries(
  database: Database,
  { now, keyOf }: {
    readonly now: () => number;
    readonly keyOf: (sessionId: string) => number;
  },
) {
  const upsert = database.prepare(
    `INSERT INTO deliveries (id, receiver, session, json, crc, made_at_ms, due_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET receiver = excluded.receiver, session = excluded.session, json = excluded.json,
       crc = excluded.crc, due_at_ms = excluded.due_at_ms, claims = claims + 1`,
  );
  const finish = database.prepare(
    "UPDATE deliveries SET json = ?, crc = ?, due_at_ms = ? WHERE id = ? AND claims = ?",
  );
  const removeAll = database.prepare("DELETE FROM deliveries WHERE receiver = ?");
  const select =
    `SELECT number, deliveries.id, receiver, sessions.id AS sessionId, deliveries.json, deliveries.crc, made_at_ms AS made,
       due_at_ms AS due, claims FROM deliveries LEFT JOIN sessions ON sessions.key = session`;
  const selectDue = database.prepare<DeliveryRow & { due: number }>(
    `${select} WHERE receiver = ? AND due_at_ms <= ? ORDER BY due_at_ms, number LIMIT ?`,
  );
  const take = database.prepare("UPDATE deliveries SET due_at_ms = ?, claims = claims + 1 WHERE id = ?");
  const selectNext = database.prepare<{ next: number | null }>(
    "SELECT min(due_at_ms) AS next FROM deliveries WHERE receiver = ? AND due_at_ms IS NOT NULL",
  );
  const selectNewest = database.prepare<DeliveryRow>(
    `${select} WHERE receiver = ?1
       AND (?2 IS NULL OR number < (SELECT number FROM deliveries WHERE id = ?2)) ORDER BY number DESC LIMIT ?3`,
  );
  const selectOne = database.prepare<DeliveryRow>(`${select} WHERE deliveries.id = ?`);
  const expire = database.prepare(
    `DELETE FROM deliveries WHERE receiver = ?1 AND (made_at_ms < ?2
       OR number <= (SELECT number FROM deliveries WHERE receiver = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?3))`,
  );
  const read = (
    { number: _, id, receiver, sessionId, made, due, claims, ...stored }: DeliveryRow,
  ): StoredDelivery => ({
    ...{ id, receiver, value: fromStoredJson(stored, database.path), madeAtMs: made, claims },
    ...(sessionId !== null && { sessionId }),
    ...(due !== null && { dueAtMs: due }),
  });

  return {
    /** Keeps one, inside a transaction. */
    put({ id, receiver, sessionId, value, dueInMs }: Extract<StoreRecord, { type: "delivery" }>) {
      const { json, crc } = toStoredJson(value);
      const session = sessionId === undefined ? null : keyOf(sessionId);
      upsert.run(id, receiver, session, json, crc, now(), now() + dueInMs);
    },
    /** Keeps what came of one, inside a transaction. */
    attempted({ id, claim, value, dueInMs }: Extract<StoreRecord, { type: "attempted" }>) {
      const { json, crc } = toStoredJson(value);
      finish.run(json, crc, dueInMs === undefined ? null : now() + dueInMs, id, claim);
    },
    /** Forgets all of a receiver, inside a transaction. */
    remove: (receiver: string) => void removeAll.run(receiver),
    claim(
      { receivers, limit, forMs }: Parameters<Store["claimDeliveries"]>[0],
    ): Awaited<ReturnType<Store["claimDeliveries"]>> {
      const nowMs = now();
      return database.transaction(() => {
        const due = receivers.flatMap(({ receiver, limit: most }) =>
          selectDue.all(receiver, nowMs, Math.min(most, limit))
        ).sort((one, other) => one.due - other.due || one.number - other.number).slice(0, limit);
        const claimed = due.sort((one, other) => one.number - other.number).map((row) => {
          take.run(nowMs + forMs, row.id);
          return read({ ...row, due: nowMs + forMs, claims: row.claims + 1 });
        });
        const next = Math.min(...receivers.map(({ receiver }) => selectNext.get(receiver)?.next ?? Infinity));
        return { claimed, ...(next < Infinity && { nextInMs: Math.max(0, next - nowMs) }) };
      });
    },
    list: (receiver: string, { limit = 100, before }: Parameters<Store["listDeliveries"]>[1] = {}) =>
      selectNewest.all(receiver, before ?? null, limit).map(read),
    get(id: string) {
      const row = selectOne.get(id);
      return row && read(row);
    },
    expire({ receiver, olderThanMs, keep }: Parameters<Store["expireDeliveries"]>[0]) {
      database.transaction(() => expire.run(receiver, now() - olderThanMs, keep));
    },
  };
}

/** Events and archived texts that one transaction removes: some milliseconds' work. */
const SLICE = 250;

/** Sessions that one transaction weighs. */
const WEIGHED = 50;

/** Unused pages that are given back at a time: at most some thirty milliseconds' work. */
const PAGES = 256;

/** Sessions that were removed go under such a name until nothing is left of them. */
const REMOVED = "removed:";

/** Removes sessions, however large they are, without keeping the process from everything else, as long as the file is open. */
function removedSessions(database: Database, isOpen: () => boolean) {
  // Nothing in memory takes long.
  const pause = database.isInMemory ? () => Promise.resolve() : nextTask;
  const rename = database.prepare<{ readonly key: number }>(
    `UPDATE sessions SET id = '${REMOVED}' || hex(randomblob(16)) WHERE id = ? RETURNING key`,
  );
  const own = ["activity", "names", "documents", "idempotency_keys", "deliveries"].map((table) =>
    database.prepare(`DELETE FROM ${table} WHERE session = ?`)
  );
  const next = database.prepare<{ readonly key: number }>(
    `SELECT key FROM sessions WHERE id >= '${REMOVED}' AND id < '${REMOVED}~'
       AND NOT EXISTS (SELECT 1 FROM activity WHERE session = key) LIMIT 1`,
  );
  const parts = [["events", "number"], ["archived", "ref"]].map(([table, name]) =>
    database.prepare(
      `DELETE FROM ${table} WHERE session = ?1
         AND ${name} IN (SELECT ${name} FROM ${table} WHERE session = ?1 LIMIT ${SLICE})`,
    )
  );
  // What is left goes by the schema's cascades.
  const finish = database.prepare("DELETE FROM sessions WHERE key = ?");
  const unweighed = database.prepare<{ readonly session: number }>(
    `SELECT session FROM activity WHERE kind = ? AND session > ? AND NOT is_weighed ORDER BY session LIMIT ${WEIGHED}`,
  );
  const weigh = database.prepare(
    `UPDATE activity SET bytes =
       (SELECT coalesce(sum(length(json)), 0) FROM events WHERE session = ?1) +
       (SELECT coalesce(sum(length(json)), 0) FROM state WHERE session = ?1) +
       (SELECT coalesce(sum(length(zstd)), 0) FROM archived JOIN texts USING (ref) WHERE session = ?1),
       is_weighed = 1
     WHERE session = ?1`,
  );
  // The one that is idle longest, if it is beyond the limits.
  const beyond = database.prepare<{ readonly id: string }>(
    `SELECT id FROM (
       SELECT session, touched_at_ms FROM activity WHERE kind = ?1 ORDER BY touched_at_ms, session LIMIT 1
     ) JOIN sessions ON key = session
     WHERE touched_at_ms < ?2 OR (SELECT bytes FROM counted WHERE kind = ?1) > ?3`,
  );
  /** Takes a session away at once. False if there is none. */
  const remove = (id: string) =>
    database.release(() => {
      const row = rename.get(id);
      if (row) { for (const statement of own) statement.run(row.key); }
      return row !== undefined;
    });
  const weighAll = async (kind: SessionRecord["kind"]) => {
    for (let last = 0; isOpen(); await pause()) {
      const rows = unweighed.all(kind, last);
      if (rows.length === 0) return;
      last = rows.at(-1)!.session;
      database.transaction(() => rows.forEach(({ session }) => weigh.run(session)));
    }
  };
  const freeSlice = (key: number) => {
    const removed = database.release(() => parts.reduce((sum, part) => sum + part.run(key), 0));
    if (removed === 0) database.release(() => finish.run(key));
  };
  return {
    remove,
    /** Takes away sessions beyond these limits, one after the other, and tells how many. */
    async expire({ kind, beforeMs, maxBytes }: Parameters<Store["expireSessions"]>[0]) {
      await weighAll(kind);
      let expired = 0;
      while (isOpen()) {
        const found = beyond.get(kind, beforeMs, maxBytes);
        if (!found || !remove(found.id)) break;
        expired++;
        await pause();
      }
      return expired;
    },
    /** Frees what removed sessions took, also those of an earlier process, and gives the room back to the system. */
    async sweep() {
      try {
        for (; isOpen(); await pause()) {
          const left = next.get();
          if (left) freeSlice(left.key);
          else if (database.shrink(PAGES) === 0) return;
        }
      } finally {
        database.restock();
      }
    },
  };
}

/** Lets the process do what waits. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
