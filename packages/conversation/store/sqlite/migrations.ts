import type { DatabaseSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { type Content, firstWords } from "@tare/messages";
import { type StoredJson, toStoredJson } from "./stored_json.ts";

type Names = Readonly<Record<string, string>>;

/** Marks a SQLite file as a store: "TARE" in ASCII. */
export const APPLICATION_ID = 0x54415245;

/** A step of a store's history. It runs inside a transaction, before foreign keys are watched. */
export type Migration = (connection: DatabaseSync) => void;

/**
 * The history of stores: the step at index `n` makes version `n + 1` of version `n`. Files of every version exist, so
 * what stands here is never changed, only added to.
 */
export const MIGRATIONS: readonly Migration[] = [
  (connection) => connection.exec(TABLES),
  renameFields,
  (connection) =>
    rewrite(
      connection,
      { table: "sessions" },
      (session) => renameAt(session, ["settings", "budget"], { maxCost: "maxTokenUnits" }),
    ),
  (connection) => connection.exec(ACTIVITY),
  addTitles,
  (connection) => connection.exec("ALTER TABLE sessions ADD COLUMN parent TEXT"),
  (connection) => connection.exec(CONVERSATIONS),
];

// `crc` is the CRC-32 of the JSON beside it. Events are clustered by session, so that a session is read in one sweep.
const TABLES = `
  CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (session, number)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE state (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    name TEXT NOT NULL,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (session, name)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE texts (
    ref TEXT PRIMARY KEY NOT NULL,
    zstd BLOB NOT NULL
  ) STRICT;

  CREATE TABLE archived (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    ref TEXT NOT NULL REFERENCES texts,
    PRIMARY KEY (session, ref)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX archived_by_ref ON archived (ref);
  CREATE TRIGGER archived_last AFTER DELETE ON archived BEGIN
    DELETE FROM texts WHERE ref = OLD.ref AND NOT EXISTS (SELECT 1 FROM archived WHERE ref = OLD.ref);
  END;

  CREATE TABLE idempotency_keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    touched_at_ms INTEGER NOT NULL,
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    json TEXT,
    crc INTEGER,
    PRIMARY KEY (scope, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_keys_by_age ON idempotency_keys (touched_at_ms);
  CREATE INDEX idempotency_keys_by_session ON idempotency_keys (session) WHERE session IS NOT NULL;

  CREATE TABLE documents (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX documents_by_session ON documents (session);
`;

// A session without a row here is being deleted. Those that were there before count as used just now.
const ACTIVITY = `
  CREATE TABLE activity (
    session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    touched_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX activity_by_age ON activity (touched_at_ms);
  INSERT INTO activity SELECT key, unixepoch() * 1000 FROM sessions;
`;

// A text goes with the last that has it, session or conversation. `saved` tells which was saved last, whatever the clock.
const CONVERSATIONS = `
  CREATE TABLE conversations (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    saved_at_ms INTEGER NOT NULL,
    saved INTEGER NOT NULL UNIQUE
  ) STRICT;

  CREATE TABLE conversation_names (
    name TEXT NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    PRIMARY KEY (name, conversation)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX conversation_names_by_conversation ON conversation_names (conversation);

  CREATE TABLE conversation_texts (
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    ref TEXT NOT NULL REFERENCES texts,
    PRIMARY KEY (conversation, ref)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX conversation_texts_by_ref ON conversation_texts (ref);

  DROP TRIGGER archived_last;
  CREATE TRIGGER archived_last AFTER DELETE ON archived BEGIN
    DELETE FROM texts WHERE ref = OLD.ref
      AND NOT EXISTS (SELECT 1 FROM archived WHERE ref = OLD.ref)
      AND NOT EXISTS (SELECT 1 FROM conversation_texts WHERE ref = OLD.ref);
  END;
  CREATE TRIGGER conversation_text_last AFTER DELETE ON conversation_texts BEGIN
    DELETE FROM texts WHERE ref = OLD.ref
      AND NOT EXISTS (SELECT 1 FROM archived WHERE ref = OLD.ref)
      AND NOT EXISTS (SELECT 1 FROM conversation_texts WHERE ref = OLD.ref);
  END;
`;

const BUDGETS: Names = { max_steps: "maxSteps", max_tokens: "maxTokens", max_cost: "maxCost" };
const MECHANISMS: Names = { bound: "truncate" };

/** What a session may cost is written as all our JSON is, and one of the mechanisms has another name. */
function renameFields(connection: DatabaseSync): void {
  const renameSaved = (value: unknown) => renameAt(value, ["ledger", "saved"], MECHANISMS);
  rewrite(connection, { table: "sessions" }, (session) => renameAt(session, ["settings", "budget"], BUDGETS));
  rewrite(connection, { table: "state", where: "name = 'totals'" }, renameSaved);
  rewrite(connection, { table: "events", where: "type = 'turn_end'" }, renameSaved);
  rewrite(
    connection,
    { table: "events", where: "type = 'context_rewritten'" },
    (event) => isRecord(event) && event.mechanism === "bound" ? { ...event, mechanism: "truncate" } : event,
  );
}

/** Sessions are found by what the user said first. */
function addTitles(connection: DatabaseSync): void {
  const openings = connection.prepare(
    `SELECT json, crc FROM events WHERE session = ? AND type IN ('turn_start', 'user_message', 'message_added')
     ORDER BY number LIMIT 3`,
  );
  const insert = connection.prepare("INSERT INTO state VALUES (?, 'title', ?, ?) ON CONFLICT DO NOTHING");
  for (const { key } of connection.prepare("SELECT key FROM sessions").all()) {
    const said = (openings.all(key!) as unknown as StoredJson[])
      .filter(({ json, crc }) => crc32(json) === crc)
      .map(({ json }) => firstWords(contentSaid(JSON.parse(json))));
    const title = said.find((text) => text !== "");
    if (title === undefined) continue;
    const { json, crc } = toStoredJson(title);
    insert.run(key!, json, crc);
  }
}

/** What the user says in an event. */
function contentSaid(event: unknown): Content | undefined {
  if (!isRecord(event)) return undefined;
  const { input, message } = event;
  if (isRecord(message)) return message.role === "user" ? message.content as Content : undefined;
  return input as Content | undefined;
}

const KEYS = { sessions: ["key"], events: ["session", "number"], state: ["session", "name"] } as const;

/** Gives records another value. One that was damaged is left as it is: that is told when somebody reads it. */
function rewrite(
  connection: DatabaseSync,
  { table, where = "true" }: { readonly table: keyof typeof KEYS; readonly where?: string },
  change: (value: unknown) => unknown,
): void {
  const keys = KEYS[table];
  const rows = connection.prepare(`SELECT json, crc, ${keys.join()} FROM ${table} WHERE ${where}`).all();
  const update = connection.prepare(
    `UPDATE ${table} SET json = ?, crc = ? WHERE ${keys.map((key) => `${key} = ?`).join(" AND ")}`,
  );
  for (const { json, crc, ...key } of rows as unknown as (StoredJson & Record<string, string | number>)[]) {
    if (crc32(json) !== crc) continue;
    const changed = toStoredJson(change(JSON.parse(json)));
    if (changed.json !== json) update.run(changed.json, changed.crc, ...Object.values(key));
  }
}

/** The value with new names for the fields of the object that stands there, if one does. */
function renameAt(value: unknown, [field, ...path]: readonly string[], names: Names): unknown {
  if (!isRecord(value)) return value;
  if (field !== undefined) {
    return field in value ? { ...value, [field]: renameAt(value[field], path, names) } : value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, kept]) => [names[name] ?? name, kept]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}
