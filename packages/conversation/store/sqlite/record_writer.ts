import type { StoreRecord } from "../port.ts";
import { conflictError, notAskedError, sessionExistsError } from "../store_error.ts";
import type { Database } from "./database.ts";
import type { IdempotencyRows } from "./idempotency_keys.ts";
import { toStoredJson } from "./stored_json.ts";
import type { StoredTexts } from "./stored_texts.ts";

const MINUTE_MS = 60_000;

/** A session's row, and the number of its last event. */
export interface Place {
  readonly key: number;
  readonly last: number;
}

/** Makes a function that writes one record, inside a transaction. `keyOf` and `placeOf` throw if there is no such session. */
export function recordWriter(
  database: Database,
  { now, keyOf, placeOf, respond, putText }: {
    readonly now: () => number;
    readonly keyOf: (id: string) => number;
    readonly placeOf: (id: string) => Place;
    readonly respond: IdempotencyRows["respond"];
    readonly putText: StoredTexts["put"];
  },
): (record: StoreRecord) => void {
  const insertSession = database.prepare(
    "INSERT INTO sessions (id, json, crc, parent) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const insertActivity = database.prepare("INSERT INTO activity VALUES (last_insert_rowid(), ?)");
  const copyArchive = database.prepare(
    "INSERT INTO archived SELECT ?1, ref FROM archived WHERE session = ?2",
  );
  // Writing it each time would take a page more of every word of every answer.
  const touch = database.prepare(
    "UPDATE activity SET touched_at_ms = ? WHERE session = ? AND touched_at_ms <= ?",
  );
  const insertEvent = database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)");
  const upsertState = database.prepare(
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json, crc = excluded.crc",
  );
  const upsertDocument = database.prepare(
    `INSERT INTO documents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
     SET session = excluded.session, json = excluded.json, crc = excluded.crc`,
  );
  return (record) => {
    switch (record.type) {
      case "session": {
        const { id, createdAtMs, settings, parent } = record;
        const { json, crc } = toStoredJson({ id, createdAtMs, settings, parent });
        const from = parent === undefined ? undefined : keyOf(parent);
        if (insertSession.run(id, json, crc, parent ?? null) === 0) throw sessionExistsError(id);
        insertActivity.run(now());
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
        const nowMs = now();
        touch.run(nowMs, key, nowMs - MINUTE_MS);
        return;
      }
      case "state": {
        const { json, crc } = toStoredJson(record.value);
        upsertState.run(keyOf(record.sessionId), record.name, json, crc);
        return;
      }
      case "archive":
        return putText(keyOf(record.sessionId), record);
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
