import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { zstdDecompressSync } from "node:zlib";
import { textFromBytes } from "@tare/prune/internal";
import type { ContentsItem, StoreContents } from "../contents.ts";
import { columnText, jsonText, nameIn, plainRecord } from "../json_text.ts";
import type { SessionRecord, StoredDocument, StoredSums } from "../port.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { StoreError } from "../store_error.ts";
import { connectionsTo, type OwnConnection, type Value } from "./connections.ts";
import { databaseName } from "./database_error.ts";
import { migrate } from "./migrations.ts";
import { checkObjects, noObjectError } from "./open_postgres.ts";
import { archivedText } from "./records.ts";

/** Rows that are read at a time. */
const PAGE = 256;

/** Items, and about how many characters of them, that are written at a time. */
const BATCH = 1000;
const BATCH_LENGTH = 2 ** 21;

/** How long a statement may take: those before it have left the disk much to do. */
const STATEMENT_MS = 150_000;

const LIMITS = {
  timeoutMs: 2 * STATEMENT_MS,
  connectMs: STATEMENT_MS,
  statementMs: STATEMENT_MS,
  lockMs: STATEMENT_MS,
};

/**
 * The contents of a PostgreSQL database. As long as they are open no server can begin to use it. Texts are read from where
 * they are; what is written all stays in the database.
 *
 * @throws {StoreError} if it can't be reached, and `locked` if servers use it.
 */
export async function openPostgresContents(
  url: string,
  { name = databaseName(url), objects }: {
    /** What people may call it. Default: its address without user and password. */
    readonly name?: string;
    /** The object store that servers open it with. Default: none. */
    readonly objects?: ObjectStore | undefined;
  } = {},
): Promise<StoreContents> {
  const connections = connectionsTo({ url, place: name, maxConnections: 1, ...LIMITS });
  const connection = await connections.open();
  try {
    await migrate(connection, { place: name });
    // Everything that follows is one transaction: what isn't kept in the end has never been there.
    await connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await connection.query("LOCK TABLE tare.servers IN SHARE ROW EXCLUSIVE MODE");
    const [servers] = await connection.query<{ count: number }>(
      "SELECT count(*)::integer AS count FROM tare.servers s WHERE NOT tare.is_gone(s)",
    );
    if (servers!.count > 0) {
      throw new StoreError(
        "locked",
        `Cannot open ${name}: ${
          servers!.count
        } servers use it. End them; one that was killed counts for some seconds more.`,
      );
    }
    await checkObjects(connection, { place: name, objects, takes: false });
  } catch (error) {
    await connection.close();
    throw error;
  }
  return {
    name,
    async isEmpty() {
      const tables = ["heads", "keys", "sums", "sums_added"].map((table) =>
        `EXISTS (SELECT FROM tare.${table})`
      );
      const [row] = await connection.query<{ found: boolean }>(`SELECT ${tables.join(" OR ")} AS found`);
      return !row!.found;
    },
    read: () => readAll(connection, { name, objects }),
    write: (items) => writeAll(connection, items),
    async keep() {
      await connection.query("COMMIT");
      // What was written is all new to the planner.
      await connection.query("ANALYZE");
      await connection.query("BEGIN");
    },
    close: () => connection.close(),
  };
}

async function* readAll(
  connection: OwnConnection,
  { name, objects }: { readonly name: string; readonly objects: ObjectStore | undefined },
): AsyncGenerator<ContentsItem, void> {
  // Of a session that is being removed there is no head any more.
  const texts = pages<{ ref: string; zstd: Uint8Array<ArrayBuffer> | null; object: string | null }>(
    connection,
    `SELECT ref, zstd, object FROM tare.texts t WHERE ref > $1 AND EXISTS (
       SELECT FROM tare.archived a JOIN tare.heads h USING (session) WHERE a.ref = t.ref
     ) ORDER BY ref`,
    "ref",
  );
  for await (const { ref, zstd, object } of texts("")) {
    const packed = zstd ?? await objects!.get(object!);
    if (!packed) throw noObjectError({ ref, object: object!, place: name, objects: objects! });
    const bytes = new Uint8Array(zstdDecompressSync(packed));
    if (!createHash("sha256").update(bytes).digest("hex").startsWith(ref)) {
      throw new StoreError("corrupt", `Cannot read ${name}: the archived text ${ref} was damaged.`);
    }
    yield { type: "text", ref, content: textFromBytes(bytes) };
  }

  const sessions = pages<{ key: number; json: string; touched: number }>(
    connection,
    `SELECT key, json, touched_at_ms AS touched FROM tare.sessions JOIN tare.heads ON session = key
     WHERE key > $1 ORDER BY key`,
    "key",
  );
  const events = pages<{ session: number; first: number; json: string }>(
    connection,
    "SELECT session, first, json FROM tare.events WHERE session = $1 AND first > $2 ORDER BY first",
    "session",
    "first",
  );
  for await (const { key, json, touched } of sessions(0)) {
    const session: SessionRecord = JSON.parse(json);
    const { id: sessionId } = session;
    yield { type: "session", ...session, touchedAtMs: touched };
    for await (const { json } of events(key, 0)) {
      yield { type: "events", sessionId, events: JSON.parse(json) as { readonly type: string }[] };
    }
    const state = await connection.query<{ name: string; json: string }>(
      "SELECT name, json FROM tare.state WHERE session = $1",
      [key],
    );
    for (const { name, json } of state) {
      yield { type: "state", sessionId, name: nameIn(name), value: JSON.parse(json) };
    }
    const archived = await connection.query<{ ref: string }>(
      "SELECT ref FROM tare.archived WHERE session = $1",
      [key],
    );
    for (const { ref } of archived) yield { type: "archived", sessionId, ref };
  }

  const named = pages<{ id: string; named: number; names: string[] }>(
    connection,
    `SELECT id, named, array(SELECT name FROM tare.names n WHERE n.session = h.session) AS names
     FROM tare.heads h JOIN tare.sessions ON key = session WHERE named > $1 ORDER BY named`,
    "named",
  );
  for await (const { id, names } of named(0)) {
    yield { type: "names", sessionId: nameIn(id), names: names.map(nameIn) };
  }

  const documents = pages<{ kind: string; id: string; json: string }>(
    connection,
    "SELECT kind, id, json FROM tare.documents WHERE (kind, id) > ($1, $2) ORDER BY kind, id",
    "kind",
    "id",
  );
  for await (const { json } of documents("", "")) {
    yield { type: "document", ...JSON.parse(json) as StoredDocument };
  }

  const deliveries = pages<
    & { number: number; id: string; receiver: string; session: string | null; json: string }
    & { made: number; due: number | null; claims: number }
  >(
    connection,
    `SELECT number, d.id, receiver, s.id AS session, d.json, made_at_ms AS made, due_at_ms AS due, claims
     FROM tare.deliveries d LEFT JOIN tare.sessions s ON s.key = d.session WHERE number > $1 ORDER BY number`,
    "number",
  );
  for await (const { id, receiver, session, json, made, due, claims } of deliveries(0)) {
    yield {
      type: "delivery",
      ...{ id: nameIn(id), receiver: nameIn(receiver), value: JSON.parse(json), madeAtMs: made, claims },
      ...(session !== null && { sessionId: nameIn(session) }),
      ...(due !== null && { dueAtMs: due }),
    };
  }

  await connection.query("SELECT tare.fold_sums()");
  const sums = pages<
    { day: string; kind: SessionRecord["kind"]; made_by: string; about: string; json: string }
  >(
    connection,
    `SELECT day, kind, made_by, about, json::text AS json FROM tare.sums
     WHERE (day, kind, made_by, about) > ($1, $2, $3, $4) ORDER BY day, kind, made_by, about`,
    ...["day", "kind", "made_by", "about"] as const,
  );
  for await (const { day, kind, made_by, about, json } of sums("", "", "", "")) {
    const by = made_by !== "" && { by: nameIn(made_by) };
    const sums = JSON.parse(json) as StoredSums["sums"];
    yield { type: "sums", kind, ...by, day: nameIn(day), about: nameIn(about), sums };
  }

  const keys = pages<
    & { scope: string; key: string; hash: string; atomic: boolean; touched: number }
    & { session: string | null; json: string | null }
  >(
    connection,
    `SELECT scope, k.key, body_hash AS hash, is_atomic AS atomic, touched_at_ms AS touched, s.id AS session, k.json
     FROM tare.keys k LEFT JOIN tare.sessions s ON s.key = k.session
     WHERE (scope, k.key) > ($1, $2) ORDER BY scope, k.key`,
    "scope",
    "key",
  );
  for await (const { scope, key, hash, atomic, touched, session, json } of keys("", "")) {
    yield {
      type: "key",
      scope: nameIn(scope),
      key: nameIn(key),
      bodyHash: hash,
      isAtomic: atomic,
      touchedAtMs: touched,
      ...(session !== null && { sessionId: nameIn(session) }),
      ...(json !== null && { answer: { response: JSON.parse(json) } }),
    };
  }
}

/** Rows of a query page by page, each behind the last of the one before, by the columns of these names. */
function pages<Row>(
  connection: OwnConnection,
  sql: string,
  ...names: readonly (keyof Row & string)[]
): (...start: (string | number)[]) => AsyncGenerator<Row, void> {
  return async function* (...start) {
    for (let behind = start;;) {
      const rows = await connection.query<Row>(`${sql} LIMIT ${PAGE}`, behind);
      yield* rows;
      if (rows.length < PAGE) return;
      const last = rows.at(-1)!;
      behind = names.map((name) => last[name] as string | number);
    }
  };
}

async function writeAll(connection: OwnConnection, items: AsyncIterable<ContentsItem>): Promise<void> {
  let batch = newBatch();
  /** Number of the last event of the session in front. */
  let last = 0;
  let count = 0;
  let length = 0;
  const flush = async () => {
    for (const { sql, columns } of Object.values(batch)) {
      if (columns[0]!.length > 0) await connection.query(sql, columns);
    }
    batch = newBatch();
    count = 0;
    length = 0;
  };
  const add = (table: keyof typeof batch, ...values: (string | undefined)[]) => {
    for (const [index, value] of values.entries()) {
      batch[table].columns[index]!.push(value ?? NOTHING);
      length += value?.length ?? 0;
    }
  };
  for await (const item of items) {
    switch (item.type) {
      case "text": {
        const { sha256, bytes, zstd } = archivedText(item.content);
        add("texts", item.ref, bytea(sha256), String(bytes), bytea(zstd));
        break;
      }
      case "session": {
        const { id, kind, by, parent, touchedAtMs } = item;
        last = 0;
        const json = jsonText(plainRecord(item));
        const names = [by, parent].map((name) => name === undefined ? undefined : columnText(name));
        add("sessions", columnText(id), json, ...names, kind, String(touchedAtMs));
        break;
      }
      case "events": {
        const { sessionId, events } = item;
        const types = [...new Set(events.map(({ type }) => columnText(type)))];
        const json = `[${events.map(jsonText).join()}]`;
        add("events", columnText(sessionId), String(last + 1), String(events.length), arrayText(types), json);
        last += events.length;
        break;
      }
      case "state":
        add("state", columnText(item.sessionId), columnText(item.name), jsonText(item.value));
        break;
      case "archived":
        add("archived", columnText(item.sessionId), item.ref);
        break;
      case "names":
        add("namings", columnText(item.sessionId));
        for (const name of item.names) add("names", columnText(item.sessionId), columnText(name));
        break;
      case "sums":
        add(
          "sums",
          columnText(item.day),
          item.kind,
          columnText(item.by ?? ""),
          columnText(item.about),
          jsonText(item.sums),
        );
        break;
      case "document": {
        const { kind, id, sessionId, value } = item;
        const json = jsonText({ kind, id, sessionId, value });
        const session = sessionId === undefined ? undefined : columnText(sessionId);
        add("documents", session, columnText(kind), columnText(id), json);
        break;
      }
      case "delivery": {
        const { id, receiver, sessionId, value, madeAtMs, dueAtMs, claims } = item;
        const session = sessionId === undefined ? undefined : columnText(sessionId);
        const given = [columnText(id), columnText(receiver), session, jsonText(value), String(madeAtMs)];
        add("deliveries", ...given, dueAtMs === undefined ? undefined : String(dueAtMs), String(claims));
        break;
      }
      case "key": {
        const { scope, key, bodyHash, isAtomic, touchedAtMs, sessionId, answer } = item;
        const session = sessionId === undefined ? undefined : columnText(sessionId);
        const json = answer && jsonText(answer.response);
        const given = [columnText(scope), columnText(key), bodyHash, String(isAtomic), String(touchedAtMs)];
        add("keys", ...given, session, json);
        break;
      }
    }
    if (++count >= BATCH || length >= BATCH_LENGTH) await flush();
  }
  await flush();
}

/** What stands for NULL in a list of texts. No JSON, name or number is like it. */
const NOTHING = "\u{1}";

/** Rows to write, a list of texts for each column; in an order in which what is referred to comes first. */
function newBatch() {
  const rows = (columns: number, sql: (unnested: string) => string) => {
    const lists = Array.from({ length: columns }, (_, index) => `$${index + 1}::text[]`);
    const names = lists.map((_, index) => `c${index + 1}`);
    return {
      sql: sql(`unnest(${lists.join()}) WITH ORDINALITY AS c (${names.join()}, place)`),
      columns: lists.map((): string[] => []),
    };
  };
  const key = "(SELECT key FROM tare.sessions WHERE id = c1)";
  return {
    texts: rows(
      4,
      (c) =>
        `INSERT INTO tare.texts (ref, sha256, bytes, zstd) SELECT c1, c2::bytea, c3::integer, c4::bytea FROM ${c}`,
    ),
    sessions: rows(6, (c) =>
      `WITH made AS (
         INSERT INTO tare.sessions (id, json, commit_id)
           SELECT c1, c2, gen_random_uuid() FROM ${c} ORDER BY place
           RETURNING key, id
       ), every AS (SELECT key, id FROM made UNION ALL SELECT key, id FROM tare.sessions WHERE id = ANY ($4))
       INSERT INTO tare.heads (session, kind, made_by, parent, touched_at_ms)
         SELECT made.key, c5, nullif(c3, U&'\\0001'),
           (SELECT parent.key FROM every parent WHERE parent.id = c4 AND parent.key < made.key), c6::bigint
         FROM ${c} JOIN made ON made.id = c1`),
    events: rows(5, (c) =>
      `WITH made AS (
         INSERT INTO tare.events SELECT ${key}, c2::bigint, c3::integer, c4::text[], c5 FROM ${c}
           RETURNING session, first + count - 1 AS last
       ) UPDATE tare.heads h SET last = ends.last
         FROM (SELECT session, max(last) AS last FROM made GROUP BY session) ends
         WHERE h.session = ends.session`),
    state: rows(3, (c) => `INSERT INTO tare.state SELECT ${key}, c2, c3 FROM ${c}`),
    archived: rows(2, (c) => `INSERT INTO tare.archived SELECT ${key}, c2 FROM ${c}`),
    namings: rows(1, (c) =>
      `UPDATE tare.heads h SET named = sorted.number FROM (
         SELECT ${key} AS session, nextval('tare.namings') AS number FROM (SELECT * FROM ${c} ORDER BY place) AS c
       ) AS sorted WHERE h.session = sorted.session`),
    names: rows(2, (c) => `INSERT INTO tare.names SELECT c2, ${key} FROM ${c}`),
    sums: rows(
      5,
      (c) =>
        `INSERT INTO tare.sums (day, kind, made_by, about, json) SELECT c1, c2, c3, c4, c5::jsonb FROM ${c}`,
    ),
    documents: rows(4, (c) => `INSERT INTO tare.documents SELECT c2, c3, ${key}, c4 FROM ${c}`),
    deliveries: rows(
      7,
      (c) =>
        `INSERT INTO tare.deliveries (id, receiver, session, json, made_at_ms, due_at_ms, claims)
       SELECT c1, c2, (SELECT key FROM tare.sessions WHERE id = c3), c4, c5::bigint,
         nullif(c6, U&'\\0001')::bigint, c7::bigint FROM ${c} ORDER BY place`,
    ),
    keys: rows(7, (c) =>
      `INSERT INTO tare.keys
         (scope, key, body_hash, owner, claim_id, was_claimed, is_atomic, touched_at_ms, session, json)
       SELECT c1, c2, c3, '', gen_random_uuid(), false, c4::boolean, c5::bigint,
         (SELECT key FROM tare.sessions WHERE id = c6), nullif(c7, U&'\\0001') FROM ${c}`),
  } satisfies Record<string, { readonly sql: string; readonly columns: Value[] & string[][] }>;
}

function bytea(bytes: Uint8Array): string {
  return `\\x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`;
}

/** A list of texts as PostgreSQL writes it. */
function arrayText(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`).join()}}`;
}
