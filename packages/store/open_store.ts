import { type Database, MEMORY, openDatabase } from "./sqlite/database.ts";
import { idempotencyKeys } from "./idempotency_keys.ts";
import { MIGRATIONS } from "./sqlite/migrations.ts";
import { sessionArchives } from "./session_archive.ts";
import { sessionDocuments } from "./session_documents.ts";
import { sessionEvents } from "./session_events.ts";
import type { SessionRecord, SessionStore, StoreOptions } from "./session_store.ts";
import { toOpenError } from "./sqlite/file_error.ts";
import { fromStoredJson, type StoredJson, toStoredJson } from "./sqlite/stored_json.ts";

/**
 * Opens the store in a file, for this process alone. File and folder are made if they aren't there, readable by their
 * owner alone; beside the file there are `<file>-wal` while it is open, which belongs to it, and `<file>.lock`, which
 * is empty.
 *
 * What a method wrote survives the end of the process (`kill -9` too) once the method has returned. A power failure
 * or a crash of the system never damages the file, but may take back the last writes, the newest first:
 * those since the log was last copied into the file, which happens every 1,000 pages (some thousand small events) and
 * on close, or since the system wrote its memory to the disk by itself, in general every half minute.
 *
 * Every record is checked when it is read: if its bytes have changed on the disk, that is an error, never another
 * content. A file of up to 64 MiB is also checked as a whole when it is opened. What was deleted makes room in the
 * file for new data; the file doesn't shrink.
 *
 * @throws {StoreError} if the file can't be opened, another process has it open, it is damaged or no store, or a
 * newer program wrote it.
 */
export function openStore(path: string, options: StoreOptions = {}): SessionStore {
  const { now = Date.now, ...rest } = options;
  const database = openDatabase(path, { ...rest, migrations: MIGRATIONS });
  try {
    const { keyOf, ...sessions } = sessionRecords(database);
    return {
      ...sessions,
      ...sessionEvents(database, keyOf),
      archive: sessionArchives(database, keyOf),
      idempotency: idempotencyKeys(database, { now, keyOf }),
      documents: sessionDocuments(database, keyOf),
      close: database.close,
    };
  } catch (error) {
    database.close();
    throw toOpenError(error, database.path);
  }
}

/** A store that is nowhere but in memory, and gone when nobody refers to it any longer: for tests and trials. */
export function memoryStore(options: StoreOptions = {}): SessionStore {
  return openStore(MEMORY, options);
}

function sessionRecords(database: Database):
  & Pick<SessionStore, "createSession" | "getSession" | "listSessions" | "countSessions" | "deleteSession">
  & { readonly keyOf: (id: string) => number } {
  const insert = database.prepare(
    "INSERT INTO sessions (id, json, crc) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const select = database.prepare<StoredJson>("SELECT json, crc FROM sessions WHERE id = ?");
  const selectPage = database.prepare<StoredJson>(
    "SELECT json, crc FROM sessions WHERE key < ? ORDER BY key DESC LIMIT ?",
  );
  const selectKey = database.prepare<{ key: number }>("SELECT key FROM sessions WHERE id = ?");
  const selectCount = database.prepare<{ count: number }>("SELECT count(*) AS count FROM sessions");
  const remove = database.prepare("DELETE FROM sessions WHERE id = ?");
  const toRecord = (row: StoredJson) => fromStoredJson(row, database.path) as SessionRecord;
  const keyOf = (id: string) => {
    const row = selectKey.get(id);
    if (!row) throw new Error(`Cannot find session ${JSON.stringify(id)}: there is no such session`);
    return row.key;
  };
  return {
    keyOf,
    createSession({ id, createdAtMs, settings }) {
      const { json, crc } = toStoredJson({ id, createdAtMs, settings });
      if (insert.run(id, json, crc) === 1) return;
      throw new Error(`Cannot create session ${JSON.stringify(id)}: there is one of this id`);
    },
    getSession(id) {
      const row = select.get(id);
      return row && toRecord(row);
    },
    listSessions({ limit = 100, before } = {}) {
      const key = before === undefined ? Number.MAX_SAFE_INTEGER : keyOf(before);
      return selectPage.all(key, limit).map(toRecord);
    },
    countSessions: () => selectCount.get()?.count ?? 0,
    // Everything that refers to the session goes by the schema's cascades.
    deleteSession: (id) => remove.run(id) > 0,
  };
}
