import type { ConversationStore, FoundConversation, SavedConversation } from "../conversation_store.ts";
import { promiseOf } from "../promise_of.ts";
import type { Database } from "./database.ts";
import { fromStoredJson, type StoredJson, toStoredJson } from "./stored_json.ts";
import type { StoredTexts } from "./stored_texts.ts";

/** The conversations in a file, which is this process's alone. `sweep` frees what expired ones took. */
export function conversationsIn(
  database: Database,
  { now, texts, sweep }: {
    readonly now: () => number;
    readonly texts: StoredTexts;
    readonly sweep: () => Promise<void>;
  },
): ConversationStore {
  const find = database.prepare<FoundConversation>(
    `SELECT kept.id, version FROM json_each(?) AS wanted
       JOIN conversation_names ON name = wanted.value JOIN conversations AS kept ON kept.key = conversation
     GROUP BY kept.key ORDER BY min(wanted.key), saved_at_ms DESC, saved DESC LIMIT ?`,
  );
  const select = database.prepare<StoredJson & { version: number }>(
    "SELECT version, json, crc FROM conversations WHERE id = ?",
  );
  const selectKey = database.prepare<{ key: number }>("SELECT key FROM conversations WHERE id = ?");
  const upsert = database.prepare<{ key: number; version: number }>(
    `INSERT INTO conversations (id, version, json, crc, bytes, saved_at_ms, saved)
     VALUES (?1, 1, ?2, ?3, length(?2), ?4, (SELECT coalesce(max(saved), 0) + 1 FROM conversations))
     ON CONFLICT (id) DO UPDATE SET version = version + 1, json = excluded.json, crc = excluded.crc,
       bytes = bytes - length(json) + length(excluded.json), saved_at_ms = excluded.saved_at_ms, saved = excluded.saved
     RETURNING key, version`,
  );
  const deleteNames = database.prepare(
    "DELETE FROM conversation_names WHERE conversation = ? AND name NOT IN (SELECT value FROM json_each(?))",
  );
  const insertName = database.prepare("INSERT INTO conversation_names VALUES (?, ?) ON CONFLICT DO NOTHING");
  const copyTexts = database.prepare(
    `INSERT INTO conversation_texts SELECT ?1, ref FROM conversation_texts
     WHERE conversation = (SELECT key FROM conversations WHERE id = ?2) ON CONFLICT DO NOTHING`,
  );
  const weigh = database.prepare(
    `UPDATE conversations SET bytes = length(json) + coalesce(
       (SELECT sum(length(zstd)) FROM conversation_texts JOIN texts USING (ref) WHERE conversation = key), 0
     ) WHERE key = ?`,
  );
  const expired = database.prepare<{ key: number }>(
    `SELECT key FROM (
       SELECT key, saved_at_ms, sum(bytes) OVER (ORDER BY saved DESC) AS total FROM conversations
     ) WHERE saved_at_ms < ? OR total > ?`,
  );
  const remove = database.prepare("DELETE FROM conversations WHERE key = ?");
  const save = ({ id, names, value, texts: added = [], parent }: SavedConversation): number => {
    const { json, crc } = toStoredJson(value);
    const { key, version } = upsert.get(id, json, crc, now())!;
    const list = JSON.stringify(names);
    deleteNames.run(key, list);
    for (const name of names) insertName.run(name, key);
    if (parent !== undefined) copyTexts.run(key, parent);
    for (const text of added) texts.keep(key, text);
    if (parent !== undefined) weigh.run(key);
    return version;
  };
  return {
    isShared: false,
    find: (names, limit = 16) => promiseOf(() => find.all(JSON.stringify(names), limit)),
    load: (id) =>
      promiseOf(() => {
        const row = select.get(id);
        return row && { id, version: row.version, value: fromStoredJson(row, database.path) };
      }),
    save: (conversation) => promiseOf(() => database.transaction(() => save(conversation))),
    texts: (id, refs) => promiseOf(() => texts.kept(selectKey.get(id)?.key ?? 0, refs)),
    async expire({ beforeMs, maxBytes }) {
      const keys = expired.all(beforeMs, maxBytes);
      for (const { key } of keys) {
        // Names and texts go by the schema's cascades.
        database.release(() => remove.run(key));
        await new Promise((resolve) => setTimeout(resolve));
      }
      if (keys.length > 0) await sweep();
      return keys.length;
    },
  };
}
