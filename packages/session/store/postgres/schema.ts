import { foldedLetters } from "../json_text.ts";
import { StoreError } from "../store_error.ts";
import type { Connection } from "./connections.ts";
import { REFUSAL, REFUSE } from "./refusals.ts";

const FOLDED = foldedLetters();

/**
 * The tables. Names are stored by `columnText`, values as JSON text, which is cheaper than parsed JSON. Commits change
 * a session's head, a small row whose old versions fit in the same page. Writers lock the head, which orders commits
 * and fences takeovers.
 */
const TABLES = `
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
    commit_id uuid NOT NULL DEFAULT gen_random_uuid(),
    is_deleted boolean NOT NULL DEFAULT false
  );
  CREATE INDEX ON tare.sessions (key) WHERE is_deleted;

  -- Writer of a session: its hold and its commit.
  CREATE TYPE tare.write AS (
    session_id text, holder text, fence bigint, number bigint, commit_id uuid, now_ms bigint
  );

  CREATE SEQUENCE tare.name_order_sequence;
  CREATE TABLE tare.heads (
    session bigint PRIMARY KEY,
    kind text NOT NULL,
    -- Key of the session. NULL: the owner's.
    created_by text,
    -- Parent of a fork, while it exists.
    parent bigint,
    holder text,
    fence bigint NOT NULL DEFAULT 0,
    last bigint NOT NULL DEFAULT 0,
    commits bigint NOT NULL DEFAULT 0,
    commit_id uuid,
    -- Newest single-commit holds, the newest first.
    recent uuid[],
    watched_until timestamptz NOT NULL DEFAULT '-infinity',
    touched_at_ms bigint NOT NULL,
    -- Order of the newest assignment of names, independent of clocks; 0: no names.
    name_order bigint NOT NULL DEFAULT 0,
    -- Size when last measured, and whether it is still current.
    bytes bigint NOT NULL DEFAULT 0,
    is_measured boolean NOT NULL DEFAULT false
  ) WITH (fillfactor = 50);
  CREATE INDEX ON tare.heads (holder) WHERE holder IS NOT NULL;
  CREATE INDEX ON tare.heads (kind, touched_at_ms, session);
  CREATE INDEX ON tare.heads (kind, session) WHERE NOT is_measured;
  CREATE INDEX ON tare.heads (parent) WHERE parent IS NOT NULL;
  -- An index for each filter of lists.
  CREATE INDEX ON tare.heads (kind, session);
  CREATE INDEX ON tare.heads (kind, session) WHERE parent IS NULL;
  CREATE INDEX ON tare.heads (created_by, kind, session) WHERE created_by IS NOT NULL;
  CREATE INDEX ON tare.heads (created_by, kind, session) WHERE created_by IS NOT NULL AND parent IS NULL;

  -- Numbers and measured sizes of sessions by kind: sums of rows. Changes add rows, without waiting for locks; see
  -- fold_counts().
  CREATE TABLE tare.session_counts (
    kind text NOT NULL,
    sessions bigint NOT NULL,
    bytes bigint NOT NULL
  );

  -- Totals of sessions and additions since the last fold; see put_totals(). The owner's key has an empty name.
  CREATE TABLE tare.totals (
    kind text NOT NULL,
    created_by text NOT NULL,
    day text COLLATE "C" NOT NULL,
    about text NOT NULL,
    json jsonb NOT NULL,
    PRIMARY KEY (day, kind, created_by, about)
  );
  CREATE TABLE tare.totals_pending (
    kind text NOT NULL,
    created_by text NOT NULL,
    day text COLLATE "C" NOT NULL,
    about text NOT NULL,
    json jsonb NOT NULL
  );

  -- Names of sessions.
  CREATE TABLE tare.names (
    name text NOT NULL,
    session bigint NOT NULL,
    PRIMARY KEY (name, session)
  );
  CREATE INDEX ON tare.names (session);

  -- Events of one commit: a JSON array of "count" events from number "first".
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

  -- Copies of some states: an index of states would slow down every write.
  CREATE TABLE tare.titles (
    session bigint PRIMARY KEY,
    json text NOT NULL,
    -- Case-folded for searches.
    folded text NOT NULL
  );
  CREATE TABLE tare.pending_work (
    name text NOT NULL,
    session bigint NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (name, session)
  );
  CREATE INDEX ON tare.pending_work (session);

  -- Texts shared by sessions, stored here or in an object.
  CREATE TABLE tare.texts (
    ref text PRIMARY KEY,
    sha256 bytea NOT NULL,
    -- Compressed.
    bytes integer NOT NULL,
    zstd bytea,
    object text,
    CHECK ((zstd IS NULL) <> (object IS NULL))
  );
  CREATE INDEX ON tare.texts (object) WHERE object IS NOT NULL;
  -- Objects without a text: being written, or to be deleted.
  CREATE TABLE tare.objects (
    name text PRIMARY KEY,
    is_unreferenced boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  -- The object store.
  CREATE TABLE tare.object_store (
    is_singleton boolean PRIMARY KEY DEFAULT true CHECK (is_singleton),
    location text NOT NULL
  );
  ALTER TABLE tare.texts ALTER COLUMN zstd SET STORAGE EXTERNAL;
  CREATE TABLE tare.text_references (
    session bigint NOT NULL,
    ref text NOT NULL,
    PRIMARY KEY (session, ref)
  );
  CREATE INDEX ON tare.text_references (ref);

  CREATE TABLE tare.documents (
    kind text NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- NULL: no session.
    session bigint,
    json text NOT NULL,
    PRIMARY KEY (kind, id)
  );
  CREATE INDEX ON tare.documents (session);

  CREATE TABLE tare.keys (
    scope text NOT NULL,
    key text NOT NULL,
    body_hash text NOT NULL,
    owner text NOT NULL,
    claim_id uuid NOT NULL DEFAULT gen_random_uuid(),
    was_claimed boolean NOT NULL DEFAULT false,
    is_atomic boolean NOT NULL,
    touched_at_ms bigint NOT NULL,
    json text,
    session bigint,
    commit_id uuid,
    PRIMARY KEY (scope, key)
  );
  CREATE INDEX ON tare.keys (touched_at_ms);
  CREATE INDEX ON tare.keys (session) WHERE session IS NOT NULL;

  -- Messages to external receivers.
  CREATE TABLE tare.deliveries (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    receiver text NOT NULL,
    -- NULL: no session.
    session bigint,
    json text NOT NULL,
    created_at_ms bigint NOT NULL,
    -- NULL: nothing is due.
    due_at_ms bigint,
    claims bigint NOT NULL DEFAULT 0
  );
  CREATE INDEX ON tare.deliveries (receiver, number);
  CREATE INDEX ON tare.deliveries (session) WHERE session IS NOT NULL;
  CREATE INDEX ON tare.deliveries (receiver, due_at_ms) WHERE due_at_ms IS NOT NULL;

  -- Requests to holders of sessions.
  CREATE TABLE tare.requests (
    id uuid PRIMARY KEY,
    session bigint NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    json text NOT NULL,
    answer text,
    is_withdrawn boolean NOT NULL DEFAULT false,
    commit_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE INDEX ON tare.requests (holder);
  CREATE INDEX ON tare.requests (session);
`;

/** Share of writes that fold earlier additions. */
const FOLD_SHARE = 1 / 128;

/** Advisory lock of folds: "fold" in ASCII. */
const FOLD_LOCK = 0x666f6c64;

/**
 * Write functions, one per record type, so that a commit is one round trip. A commit has an id, by which the refusal
 * `alreadyCommitted` undoes a resent one, and a number, that of the session's previous commit plus 1, so that a delayed
 * attempt from a dead connection writes nothing. `holder` is NULL for a session that the same commit has created or
 * locked. A session held for one commit has the fencing number instead.
 */
const FUNCTIONS = `
  ${REFUSE}
  CREATE FUNCTION tare.fold_counts() RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT pg_try_advisory_xact_lock(${FOLD_LOCK}, 0) THEN RETURN; END IF;
    WITH deleted AS (DELETE FROM tare.session_counts RETURNING *)
    INSERT INTO tare.session_counts SELECT kind, sum(sessions), sum(bytes) FROM deleted GROUP BY kind;
  END $$;

  CREATE FUNCTION tare.count_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO tare.session_counts SELECT kind, count(*), sum(bytes) FROM inserted GROUP BY kind;
    IF random() < ${FOLD_SHARE} THEN PERFORM tare.fold_counts(); END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER head_inserted AFTER INSERT ON tare.heads REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION tare.count_inserted();

  CREATE FUNCTION tare.count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO tare.session_counts SELECT kind, -count(*), -sum(bytes) FROM deleted GROUP BY kind;
    IF random() < ${FOLD_SHARE} THEN PERFORM tare.fold_counts(); END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER head_deleted AFTER DELETE ON tare.heads REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION tare.count_deleted();

  CREATE FUNCTION tare.case_folded(words text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT translate(words, '${FOLDED.letters}', '${FOLDED.folded}')
  $$;

  -- Trigrams of a case-folded text.
  CREATE FUNCTION tare.trigrams(words text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT array_agg(DISTINCT substr(words, at, 3) COLLATE "C") FROM generate_series(1, length(words) - 2) AS at
  $$;
  CREATE INDEX ON tare.titles USING gin (tare.trigrams(folded)) WITH (gin_pending_list_limit = 256);

  CREATE FUNCTION tare.store_title() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO tare.titles VALUES (NEW.session, NEW.json, tare.case_folded(NEW.json))
      ON CONFLICT (session) DO UPDATE SET json = excluded.json, folded = excluded.folded;
    RETURN NULL;
  END $$;
  CREATE TRIGGER title_stored AFTER INSERT OR UPDATE ON tare.state
    FOR EACH ROW WHEN (NEW.name = 'title') EXECUTE FUNCTION tare.store_title();

  -- Maintains states that indicate work.
  CREATE FUNCTION tare.store_pending_work() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NEW.json = 'null' THEN
      DELETE FROM tare.pending_work WHERE name = NEW.name AND session = NEW.session;
    ELSE
      INSERT INTO tare.pending_work VALUES (NEW.name, NEW.session, NEW.json)
        ON CONFLICT (name, session) DO UPDATE SET json = excluded.json;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER pending_work_stored AFTER INSERT OR UPDATE ON tare.state
    FOR EACH ROW WHEN (NEW.name IN ('turn', 'pendingApproval', 'queue')) EXECUTE FUNCTION tare.store_pending_work();

  -- After a restart of the database every opening has one lease period to reconnect.
  CREATE FUNCTION tare.is_expired(s tare.servers) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT s.is_dead OR greatest(s.expires_at, pg_postmaster_start_time() + s.lease) < clock_timestamp()
  $$;

  CREATE FUNCTION tare.is_live(server text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM tare.servers s WHERE s.id = server AND NOT tare.is_expired(s))
  $$;

  CREATE FUNCTION tare.notify(kind text, about text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_notify('tare', kind || substr(about, 1, 1000))
  $$;

  -- Notifies watchers of a session's state, with the newest events if they fit in a notification (8,000 bytes). Names
  -- are stored as JSON. Longer ones are only reported as changed.
  CREATE FUNCTION tare.notify_watchers(session_id text, head tare.heads, the_events text) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE prefix text;
  BEGIN
    IF head.watched_until <= clock_timestamp() THEN RETURN; END IF;
    prefix := '["' || session_id || '",' || head.fence || ',' || coalesce('"' || head.holder || '"', 'null') || ','
      || head.last || ',';
    IF length(session_id) >= 1000 THEN
      PERFORM tare.notify('w', session_id);
    ELSIF octet_length(prefix) + octet_length(the_events) < 7900 THEN
      PERFORM pg_notify('tare', 'w' || prefix || the_events || ']');
    ELSE
      PERFORM pg_notify('tare', 'w' || prefix || '[]]');
    END IF;
  END $$;

  CREATE FUNCTION tare.session_key(session_id text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE found_key bigint;
  BEGIN
    SELECT key INTO found_key FROM tare.sessions WHERE id = session_id;
    IF found_key IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    RETURN found_key;
  END $$;

  -- Returns a session's key and prevents its deletion during the transaction.
  CREATE FUNCTION tare.locked_session_key(session_id text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE found_key bigint;
  BEGIN
    SELECT key INTO found_key FROM tare.sessions WHERE id = session_id FOR SHARE;
    IF found_key IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    RETURN found_key;
  END $$;

  -- Raises the reason why a session's head differs from the expected one.
  CREATE FUNCTION tare.refuse_write(w tare.write, the_session bigint, after bigint) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE head tare.heads;
  BEGIN
    SELECT * INTO head FROM tare.heads WHERE session = the_session;
    IF head.session IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, w.session_id); END IF;
    IF w.holder IS NOT NULL AND head.commit_id = w.commit_id THEN PERFORM tare.refuse(${REFUSAL.alreadyCommitted}, w.session_id); END IF;
    IF w.holder IS NOT NULL AND (head.holder IS DISTINCT FROM w.holder OR head.fence <> w.fence) THEN
      PERFORM tare.refuse(${REFUSAL.fenced}, w.session_id);
    END IF;
    IF w.holder IS NOT NULL AND head.commits <> w.number THEN
      PERFORM tare.refuse(${REFUSAL.commitCountMismatch}, w.session_id, head.commits::text);
    END IF;
    PERFORM tare.refuse(${REFUSAL.conflict}, w.session_id, after || ' ' || head.last);
  END $$;

  -- Locks the head of a held session, for records other than events.
  CREATE FUNCTION tare.lock_head(w tare.write) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.session_key(w.session_id);
    head tare.heads;
  BEGIN
    IF w.holder IS NULL THEN RETURN the_session; END IF;
    UPDATE tare.heads SET commits = commits + 1, commit_id = w.commit_id, is_measured = false,
        touched_at_ms = CASE WHEN touched_at_ms <= w.now_ms - 60000 THEN w.now_ms ELSE touched_at_ms END
      WHERE session = the_session AND holder = w.holder AND fence = w.fence AND commits = w.number
      RETURNING * INTO head;
    IF head.session IS NULL THEN
      PERFORM tare.refuse_write(w, the_session, NULL);
    END IF;
    PERFORM tare.notify_watchers(w.session_id, head, '[]');
    RETURN the_session;
  END $$;

  CREATE FUNCTION tare.put_session(
    session_id text, the_kind text, the_key text, the_json text, parent_id text, archive_of text, now_ms bigint,
    the_commit uuid
  ) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    archive_key bigint;
    the_parent bigint;
    the_session bigint;
    found_commit uuid;
  BEGIN
    IF coalesce(parent_id, archive_of) IS NOT NULL THEN
      archive_key := tare.session_key(coalesce(parent_id, archive_of));
      -- The archive must not shrink while it is copied.
      SELECT session INTO the_parent FROM tare.heads WHERE session = archive_key FOR SHARE;
    END IF;
    IF parent_id IS NULL THEN the_parent := NULL; END IF;
    INSERT INTO tare.sessions (id, json, commit_id) VALUES (session_id, the_json, the_commit)
      ON CONFLICT DO NOTHING RETURNING key INTO the_session;
    IF the_session IS NULL THEN
      SELECT commit_id INTO found_commit FROM tare.sessions WHERE id = session_id;
      PERFORM tare.refuse(CASE WHEN found_commit = the_commit THEN ${REFUSAL.alreadyCommitted} ELSE ${REFUSAL.sessionExists} END, session_id);
    END IF;
    INSERT INTO tare.heads (session, kind, created_by, parent, touched_at_ms)
      VALUES (the_session, the_kind, the_key, the_parent, now_ms);
    IF archive_key IS NOT NULL THEN
      INSERT INTO tare.text_references SELECT the_session, ref FROM tare.text_references WHERE session = archive_key;
    END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_events(w tare.write, after bigint, the_count integer, the_types text[], the_json text)
  RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.session_key(w.session_id);
    head tare.heads;
  BEGIN
    UPDATE tare.heads SET
        last = last + the_count,
        commits = CASE WHEN w.holder IS NULL THEN commits ELSE commits + 1 END,
        commit_id = w.commit_id,
        is_measured = false,
        -- Indexed: updating it each time would dominate the cost.
        touched_at_ms = CASE WHEN touched_at_ms <= w.now_ms - 60000 THEN w.now_ms ELSE touched_at_ms END
      WHERE session = the_session AND last = after AND (w.holder IS NULL OR (
        holder = w.holder AND fence = w.fence AND commits = w.number
      ))
      RETURNING * INTO head;
    IF head.session IS NULL THEN
      PERFORM tare.refuse_write(w, the_session, after);
    END IF;
    IF the_count > 0 THEN
      INSERT INTO tare.events VALUES (the_session, after + 1, the_count, the_types, the_json);
    END IF;
    PERFORM tare.notify_watchers(w.session_id, head, the_json);
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_state(w tare.write, the_name text, the_json text) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.lock_head(w);
  BEGIN
    INSERT INTO tare.state VALUES (the_session, the_name, the_json)
      ON CONFLICT (session, name) DO UPDATE SET json = excluded.json;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_names(w tare.write, the_names text[]) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.lock_head(w);
  BEGIN
    DELETE FROM tare.names WHERE session = the_session AND NOT name = ANY (the_names);
    INSERT INTO tare.names SELECT unnest(the_names), the_session ON CONFLICT DO NOTHING;
    UPDATE tare.heads SET name_order = nextval('tare.name_order_sequence') WHERE session = the_session;
    RETURN 1;
  END $$;

  -- Adds to the totals of a session's kind and key. Some writes fold the additions, one at a time, without blocking
  -- others.
  CREATE FUNCTION tare.put_totals(w tare.write, the_days text[], the_abouts text[], the_jsons text[])
  RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.lock_head(w);
  BEGIN
    INSERT INTO tare.totals_pending
      SELECT h.kind, coalesce(h.created_by, ''), added.day, added.about, added.json::jsonb
      FROM tare.heads h, unnest(the_days, the_abouts, the_jsons) AS added (day, about, json)
      WHERE h.session = the_session;
    IF random() < ${FOLD_SHARE} THEN PERFORM tare.fold_totals(); END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.fold_totals() RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT pg_try_advisory_xact_lock(${FOLD_LOCK}, 1) THEN RETURN; END IF;
    WITH deleted AS (
      DELETE FROM tare.totals_pending RETURNING *
    ), parts AS (
      SELECT * FROM deleted UNION ALL
      SELECT * FROM tare.totals WHERE (day, kind, created_by, about) IN (SELECT day, kind, created_by, about FROM deleted)
    ), numbers AS (
      SELECT kind, created_by, day, about, name, sum(value::numeric) AS value FROM parts, jsonb_each_text(json) AS each (name, value)
      GROUP BY kind, created_by, day, about, name
    )
    INSERT INTO tare.totals
      SELECT kind, created_by, day, about, jsonb_object_agg(name, value) FROM numbers GROUP BY kind, created_by, day, about
      ON CONFLICT (day, kind, created_by, about) DO UPDATE SET json = excluded.json;
  END $$;

  CREATE FUNCTION tare.put_text(
    w tare.write, the_ref text, the_sha256 bytea, the_bytes integer, the_zstd bytea, the_object text
  ) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.lock_head(w);
    found_sha256 bytea;
  BEGIN
    IF the_object IS NOT NULL THEN
      PERFORM FROM tare.objects WHERE name = the_object AND NOT is_unreferenced FOR UPDATE;
      IF NOT FOUND THEN PERFORM tare.refuse(${REFUSAL.textDeleted}, the_ref); END IF;
    END IF;
    -- Another transaction may delete the last reference meanwhile.
    LOOP
      INSERT INTO tare.texts SELECT the_ref, the_sha256, the_bytes, the_zstd, the_object
        WHERE the_zstd IS NOT NULL OR the_object IS NOT NULL ON CONFLICT DO NOTHING;
      SELECT sha256 INTO found_sha256 FROM tare.texts WHERE ref = the_ref FOR KEY SHARE;
      EXIT WHEN FOUND;
      IF the_zstd IS NULL AND the_object IS NULL THEN PERFORM tare.refuse(${REFUSAL.textDeleted}, the_ref); END IF;
    END LOOP;
    -- Another commit may have put the same text meanwhile.
    UPDATE tare.objects SET is_unreferenced = true WHERE name = the_object;
    DELETE FROM tare.objects o WHERE name = the_object
      AND EXISTS (SELECT FROM tare.texts t WHERE t.ref = the_ref AND t.object = the_object);
    IF found_sha256 <> the_sha256 THEN PERFORM tare.refuse(${REFUSAL.textMismatch}, the_ref); END IF;
    INSERT INTO tare.text_references VALUES (the_session, the_ref) ON CONFLICT DO NOTHING;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_document(
    session_id text, the_kind text, the_id text, the_json text, replaced text
  ) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := CASE WHEN session_id IS NOT NULL THEN tare.locked_session_key(session_id) END;
  BEGIN
    IF replaced IS NULL THEN
      INSERT INTO tare.documents VALUES (the_kind, the_id, the_session, the_json)
        ON CONFLICT (kind, id) DO UPDATE SET session = excluded.session, json = excluded.json;
    ELSIF replaced = '' THEN
      INSERT INTO tare.documents VALUES (the_kind, the_id, the_session, the_json) ON CONFLICT DO NOTHING;
    ELSE
      UPDATE tare.documents SET session = the_session, json = the_json
        WHERE kind = the_kind AND id = the_id AND json = replaced;
    END IF;
    IF NOT FOUND THEN
      -- The same write may have been sent before.
      PERFORM FROM tare.documents WHERE kind = the_kind AND id = the_id AND json = the_json FOR UPDATE;
      IF NOT FOUND THEN PERFORM tare.refuse(${REFUSAL.documentChanged}, the_id, the_kind); END IF;
    END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.delete_document(the_kind text, the_id text) RETURNS integer LANGUAGE sql AS $$
    DELETE FROM tare.documents WHERE kind = the_kind AND id = the_id;
    SELECT 1
  $$;

  CREATE FUNCTION tare.put_response(
    the_scope text, the_key text, session_id text, now_ms bigint, the_commit uuid, the_json text
  ) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := CASE WHEN session_id IS NOT NULL THEN tare.locked_session_key(session_id) END;
    found_commit uuid;
  BEGIN
    UPDATE tare.keys SET json = the_json, session = the_session, touched_at_ms = now_ms, commit_id = the_commit
      WHERE scope = the_scope AND key = the_key AND json IS NULL AND tare.is_live(owner);
    IF NOT FOUND THEN
      SELECT commit_id INTO found_commit FROM tare.keys WHERE scope = the_scope AND key = the_key;
      PERFORM tare.refuse(CASE WHEN found_commit = the_commit THEN ${REFUSAL.alreadyCommitted} ELSE ${REFUSAL.notClaimed} END, the_key, the_scope);
    END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_delivery(
    session_id text, the_id text, the_receiver text, the_json text, now_ms bigint, due_in_ms bigint
  ) RETURNS integer LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO tare.deliveries AS d (id, receiver, session, json, created_at_ms, due_at_ms) VALUES (
      the_id, the_receiver, CASE WHEN session_id IS NOT NULL THEN tare.locked_session_key(session_id) END, the_json, now_ms,
      now_ms + due_in_ms
    ) ON CONFLICT (id) DO UPDATE SET receiver = excluded.receiver, session = excluded.session, json = excluded.json,
      due_at_ms = excluded.due_at_ms, claims = d.claims + 1;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.put_delivery_attempt(the_id text, the_claim bigint, the_json text, now_ms bigint, due_in_ms bigint)
  RETURNS integer LANGUAGE sql AS $$
    UPDATE tare.deliveries SET json = the_json, due_at_ms = now_ms + due_in_ms
      WHERE id = the_id AND claims = the_claim;
    SELECT 1
  $$;

  CREATE FUNCTION tare.delete_deliveries(the_receiver text) RETURNS integer LANGUAGE sql AS $$
    DELETE FROM tare.deliveries WHERE receiver = the_receiver;
    SELECT 1
  $$;

  CREATE FUNCTION tare.put_answer(the_id uuid, the_server text, the_commit uuid, the_json text)
  RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE found_commit uuid;
  BEGIN
    UPDATE tare.requests SET answer = the_json, commit_id = the_commit
      WHERE id = the_id AND answer IS NULL AND NOT is_withdrawn AND holder = the_server;
    IF NOT FOUND THEN
      SELECT commit_id INTO found_commit FROM tare.requests WHERE id = the_id;
      PERFORM tare.refuse(CASE WHEN found_commit = the_commit THEN ${REFUSAL.alreadyCommitted} ELSE ${REFUSAL.notRequested} END, the_id::text);
    END IF;
    PERFORM tare.notify('r', the_id::text);
    RETURN 1;
  END $$;

  -- Deletes unreferenced texts. Locks order this with new references.
  CREATE FUNCTION tare.delete_unreferenced_texts(refs text[]) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM FROM tare.texts WHERE ref = ANY (refs) ORDER BY ref FOR UPDATE;
    WITH deleted AS (
      DELETE FROM tare.texts t WHERE ref = ANY (refs)
        AND NOT EXISTS (SELECT FROM tare.text_references a WHERE a.ref = t.ref) RETURNING object
    ) INSERT INTO tare.objects (name, is_unreferenced) SELECT object, true FROM deleted WHERE object IS NOT NULL;
  END $$;

  -- Records objects that are to be written, except those of stored texts, and returns their names.
  CREATE FUNCTION tare.register_objects(refs text[], names text[]) RETURNS SETOF text LANGUAGE sql AS $$
    INSERT INTO tare.objects (name) SELECT wanted.name FROM unnest(refs, names) AS wanted (ref, name)
      WHERE NOT EXISTS (SELECT FROM tare.texts t WHERE t.ref = wanted.ref)
      ON CONFLICT (name) DO UPDATE SET created_at = clock_timestamp() RETURNING name
  $$;

  -- Returns objects to be deleted, including those not committed within an hour.
  CREATE FUNCTION tare.unreferenced_objects(slice integer) RETURNS SETOF text LANGUAGE sql AS $$
    UPDATE tare.objects SET is_unreferenced = true WHERE NOT is_unreferenced AND created_at < clock_timestamp() - interval '1 hour';
    SELECT name FROM tare.objects WHERE is_unreferenced ORDER BY created_at LIMIT slice
  $$;

  -- Returns the object store in use; records this one if none is in use. NULL: none.
  CREATE FUNCTION tare.claim_object_store(here text) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    is_used boolean := EXISTS (SELECT FROM tare.texts WHERE object IS NOT NULL) OR EXISTS (SELECT FROM tare.objects);
  BEGIN
    IF here IS NOT NULL THEN
      INSERT INTO tare.object_store (location) VALUES (here)
        ON CONFLICT (is_singleton) DO UPDATE SET location = here WHERE NOT is_used;
    END IF;
    RETURN (SELECT location FROM tare.object_store WHERE is_used OR location = here);
  END $$;

  -- Deletes a session; purge_deleted_sessions() frees its contents.
  CREATE FUNCTION tare.delete_session_rows(the_session bigint) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM tare.notify('w', id) FROM tare.sessions WHERE key = the_session;
    UPDATE tare.sessions SET id = 'deleted:' || gen_random_uuid(), json = '', is_deleted = true
      WHERE key = the_session;
    DELETE FROM tare.heads WHERE session = the_session;
    -- Afterwards: creating a fork locks its parent.
    UPDATE tare.heads SET parent = NULL WHERE parent = the_session;
    DELETE FROM tare.names WHERE session = the_session;
    DELETE FROM tare.titles WHERE session = the_session;
    DELETE FROM tare.pending_work WHERE session = the_session;
    DELETE FROM tare.documents WHERE session = the_session;
    DELETE FROM tare.keys WHERE session = the_session;
    DELETE FROM tare.deliveries WHERE session = the_session;
    UPDATE tare.requests SET is_withdrawn = true WHERE session = the_session AND answer IS NULL;
  END $$;

  CREATE FUNCTION tare.delete_session(w tare.write) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.lock_head(w);
  BEGIN
    PERFORM tare.delete_session_rows(the_session);
    RETURN 1;
  END $$;

  -- Measures some changed sessions of a kind after this one. Returns the last of them, NULL at the end.
  CREATE FUNCTION tare.measure_sessions(the_kind text, after bigint, slice integer) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    head record;
    measured bigint;
    size bigint;
    growth bigint := 0;
  BEGIN
    FOR head IN SELECT session, bytes FROM tare.heads WHERE kind = the_kind AND session > after AND NOT is_measured
      ORDER BY session LIMIT slice FOR UPDATE SKIP LOCKED
    LOOP
      measured := head.session;
      size :=
        (SELECT coalesce(sum(octet_length(json)), 0) FROM tare.events WHERE session = measured) +
        (SELECT coalesce(sum(octet_length(json)), 0) FROM tare.state WHERE session = measured) +
        (SELECT coalesce(sum(t.bytes), 0) FROM tare.text_references JOIN tare.texts t USING (ref) WHERE session = measured);
      UPDATE tare.heads SET bytes = size, is_measured = true WHERE session = measured;
      growth := growth + size - head.bytes;
    END LOOP;
    IF growth <> 0 THEN INSERT INTO tare.session_counts VALUES (the_kind, 0, growth); END IF;
    RETURN measured;
  END $$;

  -- Deletes some sessions beyond these limits that aren't held. Returns their number, 0 at the end.
  CREATE FUNCTION tare.expire_sessions(the_kind text, before_ms bigint, max_bytes bigint, slice integer)
  RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    head record;
    cursor_ms bigint := -9223372036854775807;
    cursor_session bigint := 0;
    remaining bigint;
    expired integer := 0;
  BEGIN
    SELECT coalesce(sum(bytes), 0) INTO remaining FROM tare.session_counts WHERE kind = the_kind;
    WHILE expired < slice LOOP
      -- One at a time, by the index.
      SELECT session, touched_at_ms, bytes, holder INTO head FROM tare.heads
        WHERE kind = the_kind AND (touched_at_ms, session) > (cursor_ms, cursor_session)
        ORDER BY touched_at_ms, session LIMIT 1;
      EXIT WHEN NOT FOUND OR head.touched_at_ms >= before_ms AND remaining <= max_bytes;
      cursor_ms := head.touched_at_ms;
      cursor_session := head.session;
      -- A held session counts in its order, but isn't deleted.
      remaining := remaining - head.bytes;
      CONTINUE WHEN head.holder IS NOT NULL AND tare.is_live(head.holder);
      -- It may have been used or held meanwhile.
      PERFORM FROM tare.heads WHERE session = head.session AND touched_at_ms = head.touched_at_ms
        AND holder IS NOT DISTINCT FROM head.holder FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      PERFORM tare.delete_session_rows(head.session);
      expired := expired + 1;
    END LOOP;
    RETURN expired;
  END $$;

  -- Frees some contents of deleted sessions. Returns whether there may be more.
  CREATE FUNCTION tare.purge_deleted_sessions(slice integer) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint;
    refs text[];
  BEGIN
    SELECT key INTO the_session FROM tare.sessions WHERE is_deleted ORDER BY key LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF the_session IS NULL THEN RETURN false; END IF;
    DELETE FROM tare.events WHERE session = the_session
      AND first IN (SELECT first FROM tare.events WHERE session = the_session ORDER BY first LIMIT slice);
    IF FOUND THEN RETURN true; END IF;
    WITH deleted AS (
      DELETE FROM tare.text_references WHERE session = the_session
        AND ref IN (SELECT ref FROM tare.text_references WHERE session = the_session ORDER BY ref LIMIT slice)
        RETURNING ref
    ) SELECT array_agg(ref) INTO refs FROM deleted;
    IF refs IS NOT NULL THEN
      PERFORM tare.delete_unreferenced_texts(refs);
      RETURN true;
    END IF;
    DELETE FROM tare.state WHERE session = the_session;
    DELETE FROM tare.sessions WHERE key = the_session;
    RETURN true;
  END $$;

  -- Returns the state of a key and claims it. Repeated calls with one id return the same.
  CREATE FUNCTION tare.claim_key(
    the_scope text, the_key text, hash text, atomic boolean, the_owner text, the_claim uuid, now_ms bigint,
    keep_ms bigint, OUT state text, OUT response text
  ) LANGUAGE plpgsql AS $$
  DECLARE stored tare.keys;
  BEGIN
    IF NOT tare.is_live(the_owner) THEN
      state := 'unknown';
      RETURN;
    END IF;
    DELETE FROM tare.keys
      WHERE touched_at_ms <= now_ms - keep_ms AND (json IS NOT NULL OR NOT tare.is_live(owner));
    LOOP
      INSERT INTO tare.keys (scope, key, body_hash, owner, claim_id, was_claimed, is_atomic, touched_at_ms)
        VALUES (the_scope, the_key, hash, the_owner, the_claim, false, atomic, now_ms) ON CONFLICT DO NOTHING;
      IF FOUND THEN
        state := 'new';
        RETURN;
      END IF;
      SELECT * INTO stored FROM tare.keys WHERE scope = the_scope AND key = the_key FOR UPDATE;
      EXIT WHEN FOUND;
    END LOOP;
    IF stored.body_hash <> hash THEN
      state := 'mismatch';
    ELSIF stored.json IS NOT NULL THEN
      state := 'done';
      response := stored.json;
    ELSIF stored.claim_id = the_claim THEN
      state := CASE WHEN stored.was_claimed THEN 'interrupted' ELSE 'new' END;
    ELSIF tare.is_live(stored.owner) THEN
      state := 'running';
    ELSE
      UPDATE tare.keys
        SET owner = the_owner, claim_id = the_claim, was_claimed = NOT is_atomic, touched_at_ms = now_ms
        WHERE scope = the_scope AND key = the_key;
      state := CASE WHEN stored.is_atomic THEN 'new' ELSE 'interrupted' END;
    END IF;
  END $$;
`;

/**
 * Functions for sharing sessions. An opening is a row of `servers` that it renews; its holds are valid while the row
 * is. Times are by the database's clock.
 */
const LEASE_FUNCTIONS = `
  CREATE FUNCTION tare.acquire_lease(server text, lease_ms double precision) RETURNS integer LANGUAGE sql AS $$
    INSERT INTO tare.servers VALUES (
      server, lease_ms * interval '1 ms', clock_timestamp() + lease_ms * interval '1 ms'
    ) ON CONFLICT DO NOTHING;
    SELECT 1
  $$;

  -- Releases everything that an opening holds, and notifies others.
  CREATE FUNCTION tare.release_lease(server text) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE head tare.heads;
  BEGIN
    FOR head IN UPDATE tare.heads h SET holder = NULL WHERE h.holder = server RETURNING * LOOP
      PERFORM tare.notify_watchers(s.id, head, '[]') FROM tare.sessions s WHERE s.key = head.session;
    END LOOP;
    DELETE FROM tare.servers WHERE id = server;
    PERFORM tare.notify('g', server);
    RETURN 1;
  END $$;

  -- Releases the holds of an opening that has lost its lease.
  CREATE FUNCTION tare.expire_lease(server text) RETURNS integer LANGUAGE sql AS $$
    UPDATE tare.servers SET is_dead = true WHERE id = server;
    SELECT tare.notify('g', server);
    SELECT 1
  $$;

  -- Renews a lease and returns the live openings. NULL: the lease was lost.
  CREATE FUNCTION tare.renew_lease(server text) RETURNS text[] LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE tare.servers SET expires_at = clock_timestamp() + lease WHERE id = server AND NOT is_dead;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Expired rows.
    DELETE FROM tare.servers s WHERE s.expires_at < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM tare.heads h WHERE h.holder = s.id);
    DELETE FROM tare.requests WHERE created_at < clock_timestamp() - interval '1 hour';
    RETURN array(SELECT s.id FROM tare.servers s WHERE NOT tare.is_expired(s));
  END $$;

  -- Returns whether a live opening holds a session. An expired one can't renew its lease any more.
  CREATE FUNCTION tare.is_held(head tare.heads) RETURNS boolean LANGUAGE plpgsql AS $$
  BEGIN
    IF head.holder IS NULL THEN RETURN false; END IF;
    UPDATE tare.servers s SET is_dead = true WHERE s.id = head.holder AND tare.is_expired(s);
    RETURN NOT FOUND AND EXISTS (SELECT FROM tare.servers WHERE id = head.holder);
  END $$;

  -- Holds a session, also one of an expired opening.
  CREATE FUNCTION tare.hold(
    session_id text, server text, OUT fence bigint, OUT commits bigint, OUT state text, OUT was_expired boolean
  ) LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.session_key(session_id);
    head tare.heads;
  BEGIN
    SELECT * INTO head FROM tare.heads WHERE session = the_session FOR UPDATE;
    IF head.session IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    fence := head.fence;
    commits := head.commits;
    was_expired := false;
    IF head.holder = server THEN
      state := 'this';
      RETURN;
    END IF;
    IF tare.is_held(head) THEN
      state := 'other';
      RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM tare.servers WHERE id = server AND NOT is_dead) THEN
      state := 'unknown';
      RETURN;
    END IF;
    fence := head.fence + 1;
    was_expired := head.holder IS NOT NULL;
    state := 'this';
    UPDATE tare.heads h SET holder = server, fence = head.fence + 1 WHERE h.session = the_session
      RETURNING * INTO head;
    PERFORM tare.notify_watchers(session_id, head, '[]');
  END $$;

  -- Holds a session for the current commit; others are blocked until its end. Returns the number of the hold.
  CREATE FUNCTION tare.hold_for_commit(session_id text, the_fence bigint, the_commit uuid, now_ms bigint)
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.session_key(session_id);
    head tare.heads;
  BEGIN
    SELECT * INTO head FROM tare.heads WHERE session = the_session FOR UPDATE;
    IF head.session IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    IF the_commit = ANY (head.recent) THEN PERFORM tare.refuse(${REFUSAL.alreadyCommitted}, session_id); END IF;
    IF head.fence <> the_fence OR tare.is_held(head) THEN
      PERFORM tare.refuse(${REFUSAL.notAvailable}, session_id);
    END IF;
    UPDATE tare.heads SET holder = NULL, fence = head.fence + 1, commits = commits + 1, is_measured = false,
        commit_id = the_commit, recent = (the_commit || recent)[1:8],
        touched_at_ms = CASE WHEN touched_at_ms <= now_ms - 60000 THEN now_ms ELSE touched_at_ms END
      WHERE session = the_session
      RETURNING * INTO head;
    PERFORM tare.notify_watchers(session_id, head, '[]');
    RETURN head.fence;
  END $$;

  CREATE FUNCTION tare.release(session_id text, server text, the_fence bigint) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE head tare.heads;
  BEGIN
    UPDATE tare.heads h SET holder = NULL FROM tare.sessions s
      WHERE s.id = session_id AND h.session = s.key AND h.holder = server AND h.fence = the_fence
      RETURNING h.* INTO head;
    IF FOUND THEN PERFORM tare.notify_watchers(session_id, head, '[]'); END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.holder_state(holder text, server text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
      WHEN holder IS NULL THEN 'none'
      WHEN NOT tare.is_live(holder) THEN 'expired'
      WHEN holder = server THEN 'this'
      ELSE 'other'
    END
  $$;

  CREATE FUNCTION tare.session_snapshot(session_id text, server text, OUT fence bigint, OUT holder text, OUT last bigint)
  LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.session_key(session_id);
  BEGIN
    SELECT h.fence, h.last, tare.holder_state(h.holder, server)
      INTO fence, last, holder FROM tare.heads h WHERE h.session = the_session;
    IF fence IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
  END $$;

  -- Subscribes to sessions and returns their state.
  CREATE FUNCTION tare.watch_sessions(session_ids text[], seconds integer, server text)
  RETURNS TABLE (id text, fence bigint, holder text, last bigint) LANGUAGE sql AS $$
    UPDATE tare.heads h SET watched_until = clock_timestamp() + seconds * interval '1 second'
      FROM tare.sessions s WHERE seconds > 0 AND s.id = ANY (session_ids) AND h.session = s.key
        AND h.watched_until < clock_timestamp() + seconds * interval '0.5 second';
    SELECT s.id, h.fence, tare.holder_state(h.holder, server), h.last
      FROM tare.sessions s JOIN tare.heads h ON h.session = s.key WHERE s.id = ANY (session_ids)
  $$;

  -- Returns the state of changed sessions, and their events after these numbers.
  CREATE FUNCTION tare.changed_sessions(session_ids text[], known text[], afters bigint[], server text)
  RETURNS TABLE (id text, fence bigint, holder text, last bigint, events text) LANGUAGE sql STABLE AS $$
    SELECT s.id, h.fence, tare.holder_state(h.holder, server), h.last, (
        SELECT string_agg(substr(e.json, 2, length(e.json) - 2), ',' ORDER BY e.first) FROM tare.events e
          WHERE e.session = h.session AND e.first > seen.after AND h.last - seen.after <= 256
      )
      FROM unnest(session_ids, known, afters) AS seen (id, state, after)
        JOIN tare.sessions s ON s.id = seen.id JOIN tare.heads h ON h.session = s.key
      WHERE seen.state <> h.fence || ' ' || h.last || ' ' || (h.holder IS NULL)
  $$;

  -- Sends a request to the holder of a session. False: there is none. The row stays, so that a resent request has no
  -- second effect.
  CREATE FUNCTION tare.send_request(session_id text, the_id uuid, the_json text) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.session_key(session_id);
    head tare.heads;
  BEGIN
    PERFORM tare.watch_sessions(ARRAY[session_id], 10, NULL);
    SELECT * INTO head FROM tare.heads WHERE session = the_session;
    IF head.holder IS NULL OR NOT tare.is_live(head.holder) THEN RETURN false; END IF;
    INSERT INTO tare.requests (id, session, holder, fence, json)
      VALUES (the_id, the_session, head.holder, head.fence, the_json) ON CONFLICT DO NOTHING;
    PERFORM tare.notify('a', head.holder);
    RETURN true;
  END $$;

  -- Returns the outcome of a request. It is withdrawn if its holder lost the session without answering.
  CREATE FUNCTION tare.request_status(the_id uuid, OUT is_complete boolean, OUT answer text) LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE tare.requests r SET is_withdrawn = true WHERE r.id = the_id AND r.answer IS NULL AND NOT EXISTS (
      SELECT FROM tare.heads h WHERE h.session = r.session AND h.holder = r.holder AND h.fence = r.fence
        AND tare.is_live(h.holder)
    );
    SELECT r.answer, r.answer IS NOT NULL OR r.is_withdrawn INTO answer, is_complete
      FROM tare.requests r WHERE r.id = the_id;
    is_complete := coalesce(is_complete, true);
  END $$;
`;

/** Version of tables and functions; databases of other versions are refused. */
const VERSION = 2;

const LEAST_SERVER = 15;

/** Advisory lock of schema creation: "tare" in ASCII. */
const LOCK = 0x74617265;

/**
 * Creates the tables unless they exist. Waits for another opening that creates them.
 *
 * @throws {StoreError} `other_version` if another version of the program created them.
 */
export async function createTables(connection: Connection, place: string): Promise<void> {
  const [server] = await connection.query<{ version: string; number: number }>(
    "SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number",
  );
  if (server!.number < LEAST_SERVER * 10_000) {
    throw new StoreError(
      "io",
      `Cannot open the store ${place}: this is PostgreSQL ${server!.version}. Use ${LEAST_SERVER} or newer.`,
    );
  }
  if (await hasTables(connection, place)) return;
  await connection.query("BEGIN");
  try {
    await connection.query("SET LOCAL statement_timeout = 0");
    await connection.query(`SELECT pg_advisory_xact_lock(${LOCK})`);
    if (!await hasTables(connection, place)) {
      // A user without the right to create schemas may own this one.
      const [found] = await connection.query("SELECT 1 FROM pg_namespace WHERE nspname = 'tare'");
      if (!found) await connection.query("CREATE SCHEMA tare");
      await connection.query(`CREATE TABLE tare.schema_version AS SELECT ${VERSION} AS version`);
      await connection.query(TABLES + FUNCTIONS + LEASE_FUNCTIONS);
    }
    await connection.query("COMMIT");
  } catch (error) {
    // The end of the connection rolls back, too.
    await connection.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function hasTables(connection: Connection, place: string): Promise<boolean> {
  // Not to_regclass(), which may miss tables that another opening has just created.
  const [found] = await connection.query(
    "SELECT 1 FROM pg_tables WHERE schemaname = 'tare' AND tablename = 'schema_version'",
  );
  if (!found) return false;
  const [row] = await connection.query<{ version: number }>("SELECT version FROM tare.schema_version");
  if (row?.version === VERSION) return true;
  throw new StoreError(
    "other_version",
    `Cannot open the store ${place}: its schema version is ${row?.version}, this program's is ${VERSION}. ` +
      "Use the program that wrote it, or another database.",
  );
}
