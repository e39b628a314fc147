/**
 * The tables. Names stand in them as `columnText` writes them, values as JSON in plain text: to take it
 * apart would cost more than all else that a commit does.
 *
 * A session's row never changes but where it is removed; what changes with each commit is its head, a small row that
 * fits beside its older versions in one page. Who writes to a session has its head locked, so that one comes after the
 * other, also a commit and the takeover that fences it off.
 */
export const TABLES: string = `
  CREATE TABLE tare.servers (
    id text PRIMARY KEY,
    lease interval NOT NULL,
    expires_at timestamptz NOT NULL,
    is_dead boolean NOT NULL DEFAULT false
  ) WITH (fillfactor = 50);

  CREATE TABLE tare.sessions (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    json text NOT NULL,
    parent text,
    commit_id uuid NOT NULL,
    is_removed boolean NOT NULL DEFAULT false
  );
  CREATE INDEX ON tare.sessions (key) WHERE is_removed;

  CREATE SEQUENCE tare.namings;
  CREATE TABLE tare.heads (
    session bigint PRIMARY KEY,
    kind text NOT NULL,
    holder text,
    fence bigint NOT NULL DEFAULT 0,
    last bigint NOT NULL DEFAULT 0,
    commits bigint NOT NULL DEFAULT 0,
    commit_id uuid,
    -- The newest commits for which it was held alone, the newest first.
    recent uuid[],
    watched_until timestamptz NOT NULL DEFAULT '-infinity',
    touched_at_ms bigint NOT NULL,
    -- Which of its names were given last, whatever the clocks of the servers say; 0: it has none.
    named bigint NOT NULL DEFAULT 0,
    -- What it takes. NULL: nobody has weighed it since it was last written.
    bytes bigint
  ) WITH (fillfactor = 50);
  CREATE INDEX ON tare.heads (holder) WHERE holder IS NOT NULL;
  CREATE INDEX ON tare.heads (kind, session);
  CREATE INDEX ON tare.heads (kind, touched_at_ms);

  -- What sessions can be found by.
  CREATE TABLE tare.names (
    name text NOT NULL,
    session bigint NOT NULL,
    PRIMARY KEY (name, session)
  );
  CREATE INDEX ON tare.names (session);

  -- Those of one commit: a JSON array of so many, the first of which has this number.
  CREATE TABLE tare.events (
    session bigint NOT NULL,
    first bigint NOT NULL,
    count integer NOT NULL,
    types text[] NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (session, first)
  );

  CREATE TABLE tare.state (
    session bigint NOT NULL,
    name text NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (session, name)
  ) WITH (fillfactor = 70);

  -- A text is stored once, however many sessions have it.
  CREATE TABLE tare.texts (
    ref text PRIMARY KEY,
    sha256 bytea NOT NULL,
    zstd bytea NOT NULL
  );
  ALTER TABLE tare.texts ALTER COLUMN zstd SET STORAGE EXTERNAL;
  CREATE TABLE tare.archived (
    session bigint NOT NULL,
    ref text NOT NULL,
    PRIMARY KEY (session, ref)
  );
  CREATE INDEX ON tare.archived (ref);

  CREATE TABLE tare.documents (
    kind text NOT NULL,
    id text NOT NULL,
    session bigint NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (kind, id)
  );
  CREATE INDEX ON tare.documents (session);

  CREATE TABLE tare.keys (
    scope text NOT NULL,
    key text NOT NULL,
    body_hash text NOT NULL,
    owner text NOT NULL,
    claim_id uuid NOT NULL,
    was_claimed boolean NOT NULL,
    touched_at_ms bigint NOT NULL,
    json text,
    session bigint,
    commit_id uuid,
    PRIMARY KEY (scope, key)
  );
  CREATE INDEX ON tare.keys (touched_at_ms);
  CREATE INDEX ON tare.keys (session) WHERE session IS NOT NULL;

  -- What is asked of the opening that holds a session.
  CREATE TABLE tare.requests (
    id uuid PRIMARY KEY,
    session bigint NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    json text NOT NULL,
    answer text,
    is_withdrawn boolean NOT NULL DEFAULT false,
    commit_id uuid,
    made_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE INDEX ON tare.requests (holder);
  CREATE INDEX ON tare.requests (session);
`;
