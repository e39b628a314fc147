import type { DatabaseSync } from "node:sqlite";
import { fromStoredJson, type StoredJson, toStoredJson } from "./stored_json.ts";

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
  renameBudgets,
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

const BUDGET_NAMES: ReadonlyMap<string, string> = new Map([
  ["max_steps", "maxSteps"],
  ["max_tokens", "maxTokens"],
  ["max_cost", "maxCost"],
]);

/** What a session may cost stands in its settings. */
function renameBudgets(connection: DatabaseSync): void {
  const update = connection.prepare("UPDATE sessions SET json = ?, crc = ? WHERE key = ?");
  for (const row of connection.prepare("SELECT key, json, crc FROM sessions").all()) {
    const { key, json, crc } = row as unknown as StoredJson & { key: number };
    const session = intact({ json, crc }) as { settings?: { budget?: Record<string, unknown> } } | undefined;
    const budget = session?.settings?.budget;
    if (!budget) continue;
    const renamed = Object.entries(budget).map(([name, value]) => [BUDGET_NAMES.get(name) ?? name, value]);
    const settings = { ...session.settings, budget: Object.fromEntries(renamed) };
    const stored = toStoredJson({ ...session, settings });
    update.run(stored.json, stored.crc, key);
  }
}

/** What a record holds, unless it was damaged: that is told when somebody reads it, and is left as it is. */
function intact(stored: StoredJson): unknown {
  try {
    return fromStoredJson(stored, "");
  } catch {
    return undefined;
  }
}
