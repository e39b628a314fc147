import { REFUSAL } from "./refusals.ts";

/**
 * Version 2: conversations that pass through. Their texts stand beside those of sessions, each once. `saved` tells which
 * was saved last, whatever the clocks of the servers say.
 */
export const CONVERSATIONS: string = `
  CREATE SEQUENCE tare.saves;
  CREATE TABLE tare.conversations (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    version bigint NOT NULL,
    json text NOT NULL,
    bytes bigint NOT NULL,
    save_id uuid NOT NULL,
    saved_at_ms bigint NOT NULL,
    saved bigint NOT NULL
  ) WITH (fillfactor = 70);
  CREATE TABLE tare.conversation_names (
    name text NOT NULL,
    conversation bigint NOT NULL REFERENCES tare.conversations ON DELETE CASCADE,
    PRIMARY KEY (name, conversation)
  );
  CREATE INDEX ON tare.conversation_names (conversation);
  CREATE TABLE tare.conversation_texts (
    conversation bigint NOT NULL REFERENCES tare.conversations ON DELETE CASCADE,
    ref text NOT NULL,
    PRIMARY KEY (conversation, ref)
  );
  CREATE INDEX ON tare.conversation_texts (ref);

  -- A text goes with the last that has it, session or conversation.
  CREATE OR REPLACE FUNCTION tare.sweep_texts(refs text[]) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM FROM tare.texts WHERE ref = ANY (refs) ORDER BY ref FOR UPDATE;
    DELETE FROM tare.texts t WHERE ref = ANY (refs)
      AND NOT EXISTS (SELECT FROM tare.archived a WHERE a.ref = t.ref)
      AND NOT EXISTS (SELECT FROM tare.conversation_texts c WHERE c.ref = t.ref);
  END $$;

  -- Saves a conversation, once for each save_id, and gives its version. The texts are a JSON array, sorted, so that two
  -- that save the same ones don't wait for each other.
  CREATE FUNCTION tare.save_conversation(
    the_id text, the_json text, names text[], the_texts text, parent text, the_save uuid, now_ms bigint
  ) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    the_key bigint;
    the_version bigint;
    one record;
    found_sha256 bytea;
  BEGIN
    INSERT INTO tare.conversations (id, version, json, bytes, save_id, saved_at_ms, saved)
      VALUES (the_id, 1, the_json, octet_length(the_json), the_save, now_ms, nextval('tare.saves'))
      ON CONFLICT (id) DO UPDATE SET version = conversations.version + 1, json = excluded.json,
        bytes = conversations.bytes - octet_length(conversations.json) + octet_length(excluded.json),
        save_id = excluded.save_id, saved_at_ms = excluded.saved_at_ms, saved = excluded.saved
        WHERE conversations.save_id <> the_save
      RETURNING key, version INTO the_key, the_version;
    IF the_key IS NULL THEN
      RETURN (SELECT version FROM tare.conversations WHERE id = the_id);
    END IF;
    DELETE FROM tare.conversation_names WHERE conversation = the_key AND NOT name = ANY (names);
    INSERT INTO tare.conversation_names SELECT unnest(names), the_key ON CONFLICT DO NOTHING;
    IF parent IS NOT NULL THEN
      INSERT INTO tare.conversation_texts
        SELECT the_key, ref FROM tare.conversation_texts
        WHERE conversation = (SELECT key FROM tare.conversations WHERE id = parent) ON CONFLICT DO NOTHING;
    END IF;
    FOR one IN SELECT ref, decode(sha256, 'base64') AS sha256, decode(zstd, 'base64') AS zstd
      FROM json_to_recordset(the_texts::json) AS t(ref text, sha256 text, zstd text)
    LOOP
      -- Another transaction may remove the last reference to it in between.
      LOOP
        INSERT INTO tare.texts VALUES (one.ref, one.sha256, one.zstd) ON CONFLICT DO NOTHING;
        SELECT sha256 INTO found_sha256 FROM tare.texts WHERE ref = one.ref FOR KEY SHARE;
        EXIT WHEN FOUND;
      END LOOP;
      IF found_sha256 <> one.sha256 THEN PERFORM tare.refuse(${REFUSAL.otherText}, one.ref); END IF;
      INSERT INTO tare.conversation_texts VALUES (the_key, one.ref) ON CONFLICT DO NOTHING;
      IF FOUND THEN
        UPDATE tare.conversations SET bytes = bytes + length(one.zstd) WHERE key = the_key;
      END IF;
    END LOOP;
    IF parent IS NOT NULL THEN
      UPDATE tare.conversations SET bytes = octet_length(json) + (
        SELECT coalesce(sum(length(zstd)), 0) FROM tare.conversation_texts JOIN tare.texts USING (ref)
        WHERE conversation = the_key
      ) WHERE key = the_key;
    END IF;
    RETURN the_version;
  END $$;

  -- Forgets some conversations beyond these limits, and says how many: 0 if there are no more.
  CREATE FUNCTION tare.expire_conversations(before_ms bigint, max_bytes bigint, slice integer)
  RETURNS integer LANGUAGE plpgsql AS $$
  DECLARE
    keys bigint[];
    refs text[];
  BEGIN
    SELECT array_agg(key) INTO keys FROM (
      SELECT key FROM tare.conversations WHERE key IN (
        SELECT key FROM (
          SELECT key, saved_at_ms, sum(bytes) OVER (ORDER BY saved DESC) AS total FROM tare.conversations
        ) AS all_of_them WHERE saved_at_ms < before_ms OR total > max_bytes
      ) ORDER BY saved LIMIT slice FOR UPDATE SKIP LOCKED
    ) AS some_of_them;
    IF keys IS NULL THEN RETURN 0; END IF;
    SELECT array_agg(DISTINCT ref) INTO refs FROM tare.conversation_texts WHERE conversation = ANY (keys);
    DELETE FROM tare.conversations WHERE key = ANY (keys);
    IF refs IS NOT NULL THEN PERFORM tare.sweep_texts(refs); END IF;
    RETURN cardinality(keys);
  END $$;
`;
