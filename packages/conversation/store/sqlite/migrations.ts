import type { DatabaseSync } from "node:sqlite";
import { NEEDS_ATTENTION } from "../json_text.ts";

/** Marks a SQLite file as a store: "TARE" in ASCII. */
export const APPLICATION_ID = 0x54415245;

/** A step of a store's history. It runs inside a transaction, before foreign keys are watched. */
export type Migration = (connection: DatabaseSync) => void;

/**
 * The history of stores: the step at index `n` makes version `n + 1` of version `n`. Files of every version that was
 * released exist, so what was released is never changed, only added to. Nothing was yet.
 */
export const MIGRATIONS: readonly Migration[] = [
  (connection) => connection.exec(TABLES),
];

// `crc` is the CRC-32 of the JSON beside it. Events are clustered by session, so that a session is read in one sweep.
const TABLES = `
  CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    parent TEXT
  ) STRICT;

  -- What of a session changes all the time. One without a row here is being deleted.
  CREATE TABLE activity (
    session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    kind TEXT NOT NULL,
    touched_at_ms INTEGER NOT NULL,
    -- Which record of names was the last, whatever the clock.
    named INTEGER NOT NULL DEFAULT 0,
    -- What it takes. NULL: nobody has weighed it since it was last written.
    bytes INTEGER
  ) STRICT;
  CREATE INDEX activity_by_kind ON activity (kind, session);
  CREATE INDEX activity_by_age ON activity (kind, touched_at_ms);
  CREATE INDEX activity_by_naming ON activity (named) WHERE named > 0;

  CREATE TABLE names (
    name TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    PRIMARY KEY (name, session)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX names_by_session ON names (session);

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
  CREATE INDEX state_needing_attention ON state (name, session) WHERE ${NEEDS_ATTENTION};

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
  -- A text goes with the last that has it.
  CREATE TRIGGER archived_last AFTER DELETE ON archived BEGIN
    DELETE FROM texts WHERE ref = OLD.ref AND NOT EXISTS (SELECT 1 FROM archived WHERE ref = OLD.ref);
  END;

  CREATE TABLE idempotency_keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    is_atomic INTEGER NOT NULL,
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
    -- NULL: it goes with none.
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX documents_by_session ON documents (session);
`;
