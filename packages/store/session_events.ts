import type { Database } from "./sqlite/database.ts";
import type { SessionState, SessionStore, StoredEvent } from "./session_store.ts";
import { corruptError } from "./sqlite/file_error.ts";
import { fromStoredJson, type StoredJson, toStoredJson } from "./sqlite/stored_json.ts";

/** The events and the state of sessions. `keyOf` gives a session's row, or throws. */
export function sessionEvents(
  database: Database,
  keyOf: (id: string) => number,
): Pick<SessionStore, "appendEvents" | "readEvents" | "lastEvent" | "saveState" | "readState"> {
  const { path } = database;
  const lastNumber = database.prepare<{ number: number | null }>(
    "SELECT max(number) AS number FROM events WHERE session = ?",
  );
  const insertEvent = database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)");
  const select = "SELECT number, json, crc FROM events WHERE session = ? AND number > ?";
  const selectAll = database.prepare<StoredJson & { number: number }>(`${select} ORDER BY number LIMIT ?`);
  const selectTypes = database.prepare<StoredJson & { number: number }>(
    `${select} AND type IN (SELECT value FROM json_each(?)) ORDER BY number LIMIT ?`,
  );
  const upsertState = database.prepare(
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json, crc = excluded.crc",
  );
  const selectState = database.prepare<StoredJson>(
    "SELECT json, crc FROM state WHERE session = ? AND name = ?",
  );
  const last = (session: number) => lastNumber.get(session)?.number ?? 0;

  const appendEvents: SessionStore["appendEvents"] = (id, events, { state = {} } = {}) => {
    const eventRows = events.map((event) => ({ type: event.type, ...toStoredJson(event) }));
    const stateRows = Object.entries(state).map(([name, value]) => ({ name, ...toStoredJson(value) }));
    return database.transaction(() => {
      const session = keyOf(id);
      let number = last(session);
      for (const { type, json, crc } of eventRows) insertEvent.run(session, ++number, type, json, crc);
      for (const { name, json, crc } of stateRows) upsertState.run(session, name, json, crc);
      return number;
    });
  };
  return {
    appendEvents,
    readEvents(id, { after = 0, types, limit = -1 } = {}) {
      const session = keyOf(id);
      const rows = types
        ? selectTypes.all(session, after, JSON.stringify(types), limit)
        : selectAll.all(session, after, limit);
      return rows.map(({ number, ...stored }, index) => {
        if (!types && number !== after + index + 1) {
          throw corruptError(path, `session ${id} lacks event ${after + index + 1}`);
        }
        return { number, event: fromStoredJson(stored, path) as StoredEvent["event"] };
      });
    },
    lastEvent: (id) => last(keyOf(id)),
    saveState(id, state: SessionState) {
      appendEvents(id, [], { state });
    },
    readState(id, name) {
      const row = selectState.get(keyOf(id), name);
      return row && fromStoredJson(row, path);
    },
  };
}
