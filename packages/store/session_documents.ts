import type { Database } from "./sqlite/database.ts";
import type { SessionDocuments, StoredDocument } from "./session_store.ts";
import { fromStoredJson, type StoredJson, toStoredJson } from "./sqlite/stored_json.ts";

/** Documents that belong to sessions. `keyOf` gives a session's row, or throws. */
export function sessionDocuments(database: Database, keyOf: (id: string) => number): SessionDocuments {
  const upsert = database.prepare(
    `INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
     SET session = excluded.session, json = excluded.json, crc = excluded.crc`,
  );
  const select = database.prepare<StoredJson>("SELECT json, crc FROM documents WHERE kind = ? AND id = ?");
  return {
    put({ kind, id, sessionId, value }) {
      const { json, crc } = toStoredJson({ kind, id, sessionId, value });
      database.transaction(() => upsert.run(kind, id, keyOf(sessionId), json, crc));
    },
    get(kind, id) {
      const row = select.get(kind, id);
      return row && fromStoredJson(row, database.path) as StoredDocument;
    },
  };
}
