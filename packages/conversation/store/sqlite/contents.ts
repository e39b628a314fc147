import { existsSync, renameSync, rmSync } from "node:fs";
import type { ContentsItem, StoreContents } from "../contents.ts";
import type { SessionRecord, StoredDocument, StoredSums } from "../port.ts";
import { columnText, nameIn, plainRecord, promiseOf } from "../json_text.ts";
import { type Database, fromStoredJson, openDatabase, type StoredJson, toStoredJson } from "./database.ts";
import { corruptError } from "./file_error.ts";
import { MIGRATIONS } from "./migrations.ts";
import { packText, unpackText } from "./stored_texts.ts";

/** Rows that are read at a time: events may hold texts of some size. */
const PAGE = 256;

/** Items that are committed at a time. */
const BATCH = 1000;

/**
 * The contents of a SQLite file, for this process alone. The file need not be there.
 *
 * @throws {StoreError} as `openStore` does.
 */
export function openFileContents(path: string): StoreContents {
  const open = (path: string) => openDatabase(path, { migrations: MIGRATIONS });
  let database = existsSync(path) || existsSync(`${path}-wal`) ? open(path) : undefined;
  /** What is written stands in a file of its own, which takes the place of the other. */
  const part = `${path}.part`;
  let written: Database | undefined;
  const removePart = () => {
    for (const end of ["", "-wal", "-shm", ".lock"]) rmSync(`${part}${end}`, { force: true });
  };
  return {
    name: path,
    isEmpty: () => Promise.resolve(!database || isEmpty(database)),
    async *read() {
      const read = written ?? database;
      if (read) yield* readAll(read);
    },
    async write(items) {
      // Of a process that was cut off.
      removePart();
      written = open(part);
      await writeAll(written, items);
    },
    keep() {
      return promiseOf(() => {
        // Everything is in the file then, and on the disk.
        written?.close();
        database?.close();
        renameSync(part, path);
        written = undefined;
        removePart();
        database = open(path);
      });
    },
    close() {
      return promiseOf(() => {
        written?.close();
        if (written) removePart();
        database?.close();
      });
    },
  };
}

function isEmpty(database: Database): boolean {
  const tables = ["activity", "idempotency_keys", "sums"].map((table) => `SELECT 1 FROM ${table}`);
  return database.prepare(`${tables.join(" UNION ALL ")} LIMIT 1`).get() === undefined;
}

async function* readAll(database: Database): AsyncGenerator<ContentsItem, void> {
  const value = (row: StoredJson) => fromStoredJson(row, database.path);
  // Of a session that is being deleted there is no activity any more.
  const texts = pages<{ ref: string; zstd: Uint8Array<ArrayBuffer> }>(
    database,
    `SELECT ref, zstd FROM texts WHERE ref > ?1 AND EXISTS (
       SELECT 1 FROM archived JOIN activity USING (session) WHERE archived.ref = texts.ref
     ) ORDER BY ref`,
    "ref",
  );
  for (const { ref, zstd } of texts("")) {
    const content = unpackText(zstd, ref);
    if (content === undefined) throw corruptError(database.path, `the archived text ${ref} was damaged`);
    yield { type: "text", ref, content };
  }

  const sessions = pages<StoredJson & { key: number; touched: number }>(
    database,
    `SELECT key, json, crc, touched_at_ms AS touched FROM sessions JOIN activity ON session = key
     WHERE key > ?1 ORDER BY key`,
    "key",
  );
  const events = database.prepare<StoredJson & { number: number }>(
    `SELECT number, json, crc FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ${PAGE}`,
  );
  const state = database.prepare<StoredJson & { name: string }>(
    "SELECT name, json, crc FROM state WHERE session = ? ORDER BY name",
  );
  const archived = database.prepare<{ ref: string }>(
    "SELECT ref FROM archived WHERE session = ? ORDER BY ref",
  );
  for (const { key, touched, ...stored } of sessions(0)) {
    const session = value(stored) as SessionRecord;
    const { id: sessionId } = session;
    yield { type: "session", ...session, touchedAtMs: touched };
    for (let last = 0, rows = events.all(key, last); rows.length > 0; rows = events.all(key, last)) {
      const found = rows.map(({ number, ...stored }) => {
        if (number !== ++last) throw corruptError(database.path, `session ${sessionId} lacks event ${last}`);
        return value(stored) as { readonly type: string };
      });
      yield { type: "events", sessionId, events: found };
    }
    for (const { name, ...stored } of state.all(key)) {
      yield { type: "state", sessionId, name, value: value(stored) };
    }
    for (const { ref } of archived.all(key)) yield { type: "archived", sessionId, ref };
  }

  const named = pages<{ session: number; id: string; named: number }>(
    database,
    `SELECT session, id, named FROM activity JOIN sessions ON key = session WHERE named > ?1 AND named > 0
     ORDER BY named`,
    "named",
  );
  const namesOf = database.prepare<{ name: string }>("SELECT name FROM names WHERE session = ?");
  for (const { session, id: sessionId } of named(0)) {
    yield { type: "names", sessionId, names: namesOf.all(session).map(({ name }) => nameIn(name)) };
  }

  const documents = pages<StoredJson & { kind: string; id: string }>(
    database,
    "SELECT kind, id, json, crc FROM documents WHERE (kind, id) > (?1, ?2) ORDER BY kind, id",
    "kind",
    "id",
  );
  for (const { kind: _kind, id: _id, ...stored } of documents("", "")) {
    yield { type: "document", ...value(stored) as StoredDocument };
  }

  const deliveries = pages<
    & StoredJson
    & { number: number; id: string; receiver: string; sessionId: string | null }
    & { made: number; due: number | null; claims: number }
  >(
    database,
    `SELECT number, deliveries.id, receiver, sessions.id AS sessionId, deliveries.json, deliveries.crc,
       made_at_ms AS made, due_at_ms AS due, claims
     FROM deliveries LEFT JOIN sessions ON key = session WHERE number > ?1 ORDER BY number`,
    "number",
  );
  for (const { id, receiver, sessionId, made, due, claims, json, crc } of deliveries(0)) {
    yield {
      type: "delivery",
      ...{ id, receiver, value: value({ json, crc }), madeAtMs: made, claims },
      ...(sessionId !== null && { sessionId }),
      ...(due !== null && { dueAtMs: due }),
    };
  }

  const sums = pages<
    StoredJson & { day: string; kind: SessionRecord["kind"]; made_by: string; about: string }
  >(
    database,
    `SELECT day, kind, made_by, about, json, crc FROM sums
     WHERE (day, kind, made_by, about) > (?1, ?2, ?3, ?4) ORDER BY day, kind, made_by, about`,
    ...["day", "kind", "made_by", "about"] as const,
  );
  for (const { day, kind, made_by, about, ...stored } of sums("", "", "", "")) {
    const by = made_by !== "" && { by: nameIn(made_by) };
    const sums = value(stored) as StoredSums["sums"];
    yield { type: "sums", kind, ...by, day: nameIn(day), about: nameIn(about), sums };
  }

  const keys = pages<
    & { scope: string; key: string; hash: string; atomic: number; touched: number }
    & { sessionId: string | null; json: string | null; crc: number }
  >(
    database,
    `SELECT scope, idempotency_keys.key, body_hash AS hash, is_atomic AS atomic, touched_at_ms AS touched,
       sessions.id AS sessionId, idempotency_keys.json, idempotency_keys.crc
     FROM idempotency_keys LEFT JOIN sessions ON sessions.key = session
     WHERE (scope, idempotency_keys.key) > (?1, ?2) ORDER BY scope, idempotency_keys.key`,
    "scope",
    "key",
  );
  for (const { scope, key, hash, atomic, touched, sessionId, json, crc } of keys("", "")) {
    yield {
      type: "key",
      scope,
      key,
      bodyHash: hash,
      isAtomic: atomic === 1,
      touchedAtMs: touched,
      ...(sessionId !== null && { sessionId }),
      ...(json !== null && { answer: { response: value({ json, crc }) } }),
    };
  }
}

/** Rows of a query page by page, each behind the last of the one before, by the columns of these names. */
function pages<Row>(
  database: Database,
  sql: string,
  ...names: readonly (keyof Row & string)[]
): (...start: (string | number)[]) => Generator<Row, void> {
  const statement = database.prepare<Row>(`${sql} LIMIT ${PAGE}`);
  return function* (...start) {
    for (let rows = statement.all(...start); rows.length > 0;) {
      yield* rows;
      if (rows.length < PAGE) return;
      const last = rows.at(-1)!;
      rows = statement.all(...names.map((name) => last[name] as string | number));
    }
  };
}

async function writeAll(database: Database, items: AsyncIterable<ContentsItem>): Promise<void> {
  const write = itemWriter(database);
  let batch: ContentsItem[] = [];
  const flush = () => database.transaction(() => batch.forEach(write));
  for await (const item of items) {
    if (batch.push(item) < BATCH) continue;
    flush();
    batch = [];
  }
  flush();
}

function itemWriter(database: Database): (item: ContentsItem) => void {
  const insertText = database.prepare("INSERT INTO texts VALUES (?, ?)");
  const insertSession = database.prepare<{ key: number }>(
    "INSERT INTO sessions (id, json, crc) VALUES (?, ?, ?) RETURNING key",
  );
  const insertActivity = database.prepare(
    `INSERT INTO activity (session, kind, made_by, parent, touched_at_ms)
     VALUES (?1, ?2, ?3, (SELECT key FROM sessions WHERE id = ?4 AND key < ?1), ?5)`,
  );
  const insertNamed = database.prepare("INSERT INTO names VALUES (?, ?)");
  const countNaming = database.prepare("UPDATE activity SET named = ? WHERE session = ?");
  const insertEvent = database.prepare("INSERT INTO events VALUES (?, ?, ?, ?, ?)");
  const insertState = database.prepare("INSERT INTO state VALUES (?, ?, ?, ?)");
  const insertArchived = database.prepare("INSERT INTO archived VALUES (?, ?)");
  const selectKey = database.prepare<{ key: number }>("SELECT key FROM sessions WHERE id = ?");
  const insertDocument = database.prepare("INSERT INTO documents VALUES (?, ?, ?, ?, ?)");
  const insertDelivery = database.prepare(
    `INSERT INTO deliveries (id, receiver, session, json, crc, made_at_ms, due_at_ms, claims)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insertKey = database.prepare("INSERT INTO idempotency_keys VALUES (?, ?, ?, '', ?, ?, ?, ?, ?)");
  const insertSums = database.prepare("INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?)");
  let namings = 0;
  /** The session in front, and the number of its last event. */
  let session = 0;
  let last = 0;
  return (item) => {
    switch (item.type) {
      case "text":
        insertText.run(item.ref, packText(item.content));
        return;
      case "session": {
        const { id, kind, by, parent, touchedAtMs } = item;
        const { json, crc } = toStoredJson(plainRecord(item));
        session = insertSession.get(id, json, crc)!.key;
        last = 0;
        insertActivity.run(
          session,
          kind,
          by === undefined ? null : columnText(by),
          parent ?? null,
          touchedAtMs,
        );
        return;
      }
      case "events":
        for (const event of item.events) {
          const { json, crc } = toStoredJson(event);
          insertEvent.run(session, ++last, event.type, json, crc);
        }
        return;
      case "state": {
        const { json, crc } = toStoredJson(item.value);
        insertState.run(session, item.name, json, crc);
        return;
      }
      case "archived":
        insertArchived.run(session, item.ref);
        return;
      case "names": {
        const { key } = selectKey.get(item.sessionId)!;
        for (const name of item.names) insertNamed.run(columnText(name), key);
        countNaming.run(++namings, key);
        return;
      }
      case "sums": {
        const { json, crc } = toStoredJson(item.sums);
        insertSums.run(
          columnText(item.day),
          item.kind,
          columnText(item.by ?? ""),
          columnText(item.about),
          json,
          crc,
        );
        return;
      }
      case "document": {
        const { kind, id, sessionId, value } = item;
        const { json, crc } = toStoredJson({ kind, id, sessionId, value });
        const place = sessionId === undefined ? null : selectKey.get(sessionId)!.key;
        insertDocument.run(kind, id, place, json, crc);
        return;
      }
      case "delivery": {
        const { id, receiver, sessionId, value, madeAtMs, dueAtMs, claims } = item;
        const { json, crc } = toStoredJson(value);
        const place = sessionId === undefined ? null : selectKey.get(sessionId)!.key;
        insertDelivery.run(id, receiver, place, json, crc, madeAtMs, dueAtMs ?? null, claims);
        return;
      }
      case "key": {
        const { scope, key, bodyHash, isAtomic, touchedAtMs, sessionId, answer } = item;
        const { json, crc } = answer ? toStoredJson(answer.response) : { json: null, crc: null };
        const place = sessionId === undefined ? null : selectKey.get(sessionId)!.key;
        insertKey.run(scope, key, bodyHash, isAtomic ? 1 : 0, touchedAtMs, place, json, crc);
        return;
      }
    }
  };
}
