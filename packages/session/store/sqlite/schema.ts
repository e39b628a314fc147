/** Application id of a store's file: "TARE" in ASCII. */
export const APPLICATION_ID = 0x54415245;

/** Tables and their version; files of other versions are refused. */
export interface Schema {
  readonly version: number;
  readonly sql: string;
}

// Names are stored by `columnText`, values by `toStoredJson` with a checksum of eight characters. Events are clustered
// by session for sequential reads.
const TABLES = `
  CREATE TABLE sessions (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    json TEXT NOT NULL
  ) STRICT;

  -- The changing part of a session. Without a row it is being deleted.
  CREATE TABLE heads (
    session INTEGER PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    kind TEXT NOT NULL,
    -- Key of the session. NULL: the owner's.
    created_by TEXT,
    -- Parent of a fork, while it exists.
    parent INTEGER,
    touched_at_ms INTEGER NOT NULL,
    -- Order of the newest assignment of names, independent of clocks.
    name_order INTEGER NOT NULL DEFAULT 0,
    -- Size when last measured, and whether it is still current.
    bytes INTEGER NOT NULL DEFAULT 0,
    is_measured INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX heads_by_age ON heads (kind, touched_at_ms, session);
  CREATE INDEX heads_unmeasured ON heads (kind, session) WHERE NOT is_measured;
  CREATE INDEX heads_by_parent ON heads (parent) WHERE parent IS NOT NULL;
  -- An index for each filter of lists.
  CREATE INDEX heads_by_kind ON heads (kind, session);
  CREATE INDEX heads_no_forks ON heads (kind, session) WHERE parent IS NULL;
  CREATE INDEX heads_by_creator ON heads (created_by, kind, session) WHERE created_by IS NOT NULL;
  CREATE INDEX heads_no_forks_by_creator ON heads (created_by, kind, session)
    WHERE created_by IS NOT NULL AND parent IS NULL;
  CREATE TRIGGER heads_forks AFTER DELETE ON heads BEGIN
    UPDATE heads SET parent = NULL WHERE parent = OLD.session;
  END;

  -- Numbers and measured sizes of sessions by kind.
  CREATE TABLE session_counts (
    kind TEXT PRIMARY KEY NOT NULL,
    sessions INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER heads_inserted AFTER INSERT ON heads BEGIN
    INSERT INTO session_counts VALUES (NEW.kind, 1, NEW.bytes)
      ON CONFLICT DO UPDATE SET sessions = sessions + 1, bytes = bytes + excluded.bytes;
  END;
  CREATE TRIGGER heads_deleted AFTER DELETE ON heads BEGIN
    UPDATE session_counts SET sessions = sessions - 1, bytes = bytes - OLD.bytes WHERE kind = OLD.kind;
  END;
  CREATE TRIGGER heads_measured AFTER UPDATE OF bytes ON heads BEGIN
    UPDATE session_counts SET bytes = bytes + NEW.bytes - OLD.bytes WHERE kind = NEW.kind;
  END;

  -- Totals of sessions. The owner's key has an empty name.
  CREATE TABLE totals (
    day TEXT NOT NULL,
    kind TEXT NOT NULL,
    created_by TEXT NOT NULL,
    about TEXT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (day, kind, created_by, about)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX heads_by_name_order ON heads (name_order) WHERE name_order > 0;

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
    PRIMARY KEY (session, number)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE state (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    name TEXT NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (session, name)
  ) STRICT, WITHOUT ROWID;
  -- States that indicate work.
  CREATE INDEX state_pending_work ON state (name, session)
    WHERE substr(json, 9) <> 'null' AND name IN ('turn', 'pendingApproval', 'queue');
  CREATE VIEW pending_work AS SELECT name, session, json FROM state
    WHERE substr(json, 9) <> 'null' AND name IN ('turn', 'pendingApproval', 'queue');

  -- Titles, separately indexed for fast searches.
  CREATE INDEX state_titles ON state (session, json) WHERE name = 'title';
  CREATE VIEW titles AS SELECT session, json, folded(substr(json, 9)) AS folded
    FROM state INDEXED BY state_titles WHERE name = 'title';

  CREATE TABLE texts (
    ref TEXT PRIMARY KEY NOT NULL,
    -- Number of sessions that have it plus two: the count takes a byte from the start, so the row is updated in place.
    reference_count INTEGER NOT NULL DEFAULT 2,
    zstd BLOB NOT NULL
  ) STRICT;

  -- Texts are counted: an index by reference would write one more page per text.
  CREATE TABLE text_references (
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    ref TEXT NOT NULL,
    PRIMARY KEY (session, ref)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER text_referenced AFTER INSERT ON text_references BEGIN
    UPDATE texts SET reference_count = reference_count + 1 WHERE ref = NEW.ref;
  END;
  -- Deletes a text with its last reference.
  CREATE TRIGGER text_dereferenced AFTER DELETE ON text_references BEGIN
    UPDATE texts SET reference_count = reference_count - 1 WHERE ref = OLD.ref;
    DELETE FROM texts WHERE ref = OLD.ref AND reference_count = 2;
  END;

  CREATE TABLE keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    owner TEXT NOT NULL,
    is_atomic INTEGER NOT NULL,
    touched_at_ms INTEGER NOT NULL,
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    json TEXT,
    PRIMARY KEY (scope, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keys_by_age ON keys (touched_at_ms);
  CREATE INDEX keys_by_session ON keys (session) WHERE session IS NOT NULL;

  CREATE TABLE documents (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    -- NULL: no session.
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    json TEXT NOT NULL,
    PRIMARY KEY (kind, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX documents_by_session ON documents (session);

  CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    receiver TEXT NOT NULL,
    -- NULL: no session.
    session INTEGER REFERENCES sessions ON DELETE CASCADE,
    json TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    -- NULL: nothing is due.
    due_at_ms INTEGER,
    claims INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX deliveries_by_receiver ON deliveries (receiver, number);
  CREATE INDEX deliveries_by_session ON deliveries (session) WHERE session IS NOT NULL;
  CREATE INDEX deliveries_due ON deliveries (receiver, due_at_ms) WHERE due_at_ms IS NOT NULL;
`;

export const SCHEMA: Schema = { version: 2, sql: TABLES };
