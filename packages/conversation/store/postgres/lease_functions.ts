import { REFUSAL } from "./refusals.ts";

/**
 * How openings share sessions, as functions of the database. An opening is a row of `servers` that it
 * renews; what it holds is good while that row is. The clock is the database's own, the same for all.
 */
export const LEASE_FUNCTIONS: string = `
  CREATE FUNCTION tare.join_in(server text, lease_ms double precision) RETURNS integer LANGUAGE sql AS $$
    INSERT INTO tare.servers VALUES (
      server, lease_ms * interval '1 ms', clock_timestamp() + lease_ms * interval '1 ms'
    ) ON CONFLICT DO NOTHING;
    SELECT 1
  $$;

  -- Gives back all that an opening holds. Others hear of it at once.
  CREATE FUNCTION tare.leave(server text) RETURNS integer LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM tare.notify('w', s.id) FROM tare.heads h JOIN tare.sessions s ON s.key = h.session
      WHERE h.holder = server AND h.watched_until > clock_timestamp();
    UPDATE tare.heads SET holder = NULL WHERE holder = server;
    DELETE FROM tare.servers WHERE id = server;
    PERFORM tare.notify('g', server);
    RETURN 1;
  END $$;

  -- Lets go of what an opening holds that has lost its lease, so that somebody else takes it.
  CREATE FUNCTION tare.give_up(server text) RETURNS integer LANGUAGE sql AS $$
    UPDATE tare.servers SET is_dead = true WHERE id = server;
    SELECT tare.notify('g', server);
    SELECT 1
  $$;

  -- Renews a lease, and says who is there. NULL: somebody has taken it for dead.
  CREATE FUNCTION tare.renew(server text) RETURNS text[] LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE tare.servers SET expires_at = clock_timestamp() + lease WHERE id = server AND NOT is_dead;
    IF NOT FOUND THEN RETURN NULL; END IF;
    -- Rows that tell nobody anything any more.
    DELETE FROM tare.servers s WHERE s.expires_at < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM tare.heads h WHERE h.holder = s.id);
    DELETE FROM tare.requests WHERE made_at < clock_timestamp() - interval '1 hour';
    RETURN array(SELECT s.id FROM tare.servers s WHERE NOT tare.is_gone(s));
  END $$;

  -- Whether an opening holds it that is there. One that isn't can't renew its lease any more then.
  CREATE FUNCTION tare.is_held(head tare.heads) RETURNS boolean LANGUAGE plpgsql AS $$
  BEGIN
    IF head.holder IS NULL THEN RETURN false; END IF;
    UPDATE tare.servers s SET is_dead = true WHERE s.id = head.holder AND tare.is_gone(s);
    RETURN NOT FOUND AND EXISTS (SELECT FROM tare.servers WHERE id = head.holder);
  END $$;

  -- Takes a session, also from an opening whose lease has run out.
  CREATE FUNCTION tare.hold(
    session_id text, server text, OUT fence bigint, OUT commits bigint, OUT state text
  ) LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.key_of(session_id);
    head tare.heads;
  BEGIN
    SELECT * INTO head FROM tare.heads WHERE session = the_session FOR UPDATE;
    IF head.session IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    fence := head.fence;
    commits := head.commits;
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
    state := 'this';
    UPDATE tare.heads h SET holder = server, fence = head.fence + 1 WHERE h.session = the_session;
    IF head.watched_until > clock_timestamp() THEN PERFORM tare.notify('w', session_id); END IF;
  END $$;

  -- Takes a session for the commit that is being written, and gives it back: nobody else gets to it before the end of
  -- that. Gives the number of this hold.
  CREATE FUNCTION tare.hold_briefly(session_id text, the_fence bigint, the_commit uuid, now_ms bigint)
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.key_of(session_id);
    head tare.heads;
  BEGIN
    SELECT * INTO head FROM tare.heads WHERE session = the_session FOR UPDATE;
    IF head.session IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
    IF the_commit = ANY (head.recent) THEN PERFORM tare.refuse(${REFUSAL.wasDone}, session_id); END IF;
    IF head.fence <> the_fence OR tare.is_held(head) THEN
      PERFORM tare.refuse(${REFUSAL.notFree}, session_id);
    END IF;
    UPDATE tare.heads SET holder = NULL, fence = head.fence + 1, commits = commits + 1, bytes = NULL,
        commit_id = the_commit, recent = (the_commit || recent)[1:8],
        touched_at_ms = CASE WHEN touched_at_ms <= now_ms - 60000 THEN now_ms ELSE touched_at_ms END
      WHERE session = the_session;
    IF head.watched_until > clock_timestamp() THEN PERFORM tare.notify('w', session_id); END IF;
    RETURN head.fence + 1;
  END $$;

  CREATE FUNCTION tare.release(session_id text, server text, the_fence bigint) RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE is_watched boolean;
  BEGIN
    UPDATE tare.heads h SET holder = NULL FROM tare.sessions s
      WHERE s.id = session_id AND h.session = s.key AND h.holder = server AND h.fence = the_fence
      RETURNING h.watched_until > clock_timestamp() INTO is_watched;
    IF is_watched THEN PERFORM tare.notify('w', session_id); END IF;
    RETURN 1;
  END $$;

  CREATE FUNCTION tare.look(session_id text, server text, OUT fence bigint, OUT holder text, OUT last bigint)
  LANGUAGE plpgsql AS $$
  DECLARE the_session bigint := tare.key_of(session_id);
  BEGIN
    SELECT h.fence, h.last, CASE
        WHEN h.holder IS NULL THEN 'nobody'
        WHEN NOT tare.is_there(h.holder) THEN 'left'
        WHEN h.holder = server THEN 'this'
        ELSE 'other'
      END
      INTO fence, last, holder FROM tare.heads h WHERE h.session = the_session;
    IF fence IS NULL THEN PERFORM tare.refuse(${REFUSAL.noSession}, session_id); END IF;
  END $$;

  -- Whoever asks hears from now on when somebody else holds the session.
  CREATE FUNCTION tare.watch(session_ids text[], seconds integer) RETURNS integer LANGUAGE sql AS $$
    UPDATE tare.heads h SET watched_until = clock_timestamp() + seconds * interval '1 second'
      FROM tare.sessions s WHERE s.id = ANY (session_ids) AND h.session = s.key
        AND h.watched_until < clock_timestamp() + seconds * interval '0.5 second';
    SELECT 1
  $$;

  -- Asks something of the opening that holds a session. False: nobody does. The row stays when all is said, so that an
  -- attempt that was lost on its way doesn't ask again.
  CREATE FUNCTION tare.ask(session_id text, the_id uuid, the_json text) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    the_session bigint := tare.key_of(session_id);
    head tare.heads;
  BEGIN
    PERFORM tare.watch(ARRAY[session_id], 10);
    SELECT * INTO head FROM tare.heads WHERE session = the_session;
    IF head.holder IS NULL OR NOT tare.is_there(head.holder) THEN RETURN false; END IF;
    INSERT INTO tare.requests (id, session, holder, fence, json)
      VALUES (the_id, the_session, head.holder, head.fence, the_json) ON CONFLICT DO NOTHING;
    PERFORM tare.notify('a', head.holder);
    RETURN true;
  END $$;

  -- What has become of a request. Once its holder has lost the session it is withdrawn, unless it was answered.
  CREATE FUNCTION tare.asked(the_id uuid, OUT is_over boolean, OUT answer text) LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE tare.requests r SET is_withdrawn = true WHERE r.id = the_id AND r.answer IS NULL AND NOT EXISTS (
      SELECT FROM tare.heads h WHERE h.session = r.session AND h.holder = r.holder AND h.fence = r.fence
        AND tare.is_there(h.holder)
    );
    SELECT r.answer, r.answer IS NOT NULL OR r.is_withdrawn INTO answer, is_over
      FROM tare.requests r WHERE r.id = the_id;
    is_over := coalesce(is_over, true);
  END $$;
`;
