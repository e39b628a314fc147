import type { StoreRecord } from "../port.ts";
import { conflictError, notAskedError, sessionExistsError } from "../store_error.ts";
import type { Database } from "./database.ts";
import type { IdempotencyRows } from "./idempotency_keys.ts";
import { columnText } from "../json_text.ts";
import { toStoredJson } from "./stored_json.ts";
import type { StoredTexts } from "./stored_texts.ts";

const MINUTE_MS = 60_000;

/** A session's row, and the number of its last event. */
export interface SessionRow {
  readonly key: number;
  readonly last: number;
}

/** Makes a function that writes one record, inside a transaction. `keyOf` and `placeOf` throw if there is no such session. */
export function recordWriter(
  database: Database,
  { now, keyOf, placeOf, respond, putText }: {
    readonly now: () => number;
    readonly keyOf: (id: string) => number;
    readonly placeOf: (id: string) => SessionRow;
    readonly respond: IdempotencyRows["respond"];
    readonly putText: StoredTexts["put"];
  },
): (record: StoreRecord) => void {
  const insertSession = database.prepare(
    "INSERT INTO sessions (id, json, crc, parent) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const insertActivity = database.prepare(
    "INSERT INTO activity (session, kind, touched_at_ms) VALUES (last_insert_rowid(), ?, ?)",
  );
  const copyArchive = database.prepare(
    "INSERT INTO archived SELECT ?1, ref FROM archived WHERE session = ?2",
  );
  // Writing it each time would take a page more of every word of every answer.
  const touchRow = database.prepare(
    `UPDATE activity SET touched_at_ms = ?, bytes = NULL
     WHERE session = ? AND (touched_at_ms <= ? OR bytes IS NOT NULL)`,
  );
  const touch = (key: number) => {
    const nowMs = now();
    touchRow.run(nowMs, key, nowMs - MINUTE_MS);
  };
  /** The row of a session that is changed. */
  const touched = (id: string) => {
    const key = keyOf(id);
    touch(key);
    return key;
  };
  const insertEvent = database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)");
  const upsertState = database.prepare(
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json, crc = excluded.crc",
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
  return (record) => {
    switch (record.type) {
      case "session": {
        const { id, kind, createdAtMs, settings, parent } = record;
        const { json, crc } = toStoredJson({ id, kind, createdAtMs, settings, parent });
        const from = parent === undefined ? undefined : keyOf(parent);
        if (insertSession.run(id, json, crc, parent ?? null) === 0) throw sessionExistsError(id);
        insertActivity.run(kind, now());
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
        return touch(key);
      }
      case "state": {
        const { json, crc } = toStoredJson(record.value);
        upsertState.run(touched(record.sessionId), record.name, json, crc);
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
        const { kind, id, sessionId, value } = record;
        const { json, crc } = toStoredJson({ kind, id, sessionId, value });
        upsertDocument.run(kind, id, keyOf(sessionId), json, crc);
        return;
      }
      case "response":
        return respond(record);
      case "answer":
        // Nobody else has the file open.
        throw notAskedError(record.requestId);
    }
  };
}
