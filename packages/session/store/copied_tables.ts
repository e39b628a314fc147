import type { ContentsItem } from "./contents.ts";
import { columnText, nameIn, plainDocument, plainRecord } from "./json_text.ts";
import type { SessionRecord, StoredDocument, StoredTotalsRow } from "./port.ts";
import {
  columnTextOrNull,
  DELIVERIES,
  deliveryIn,
  type DeliveryRow,
  type SqlDialect,
  type SqlValue,
  type TextRow,
} from "./queries.ts";

/** Rows per page: events may be large. */
const PAGE = 256;

/** Most rows per insert statement, and about how many characters. */
const BATCH = 500;
const BATCH_CHARS = 2 ** 21;

type EventsItem = Extract<ContentsItem, { type: "events" }>;

export interface CopyDialect extends SqlDialect {
  toJson(value: unknown): string;
  events(session: number, sessionId: string): AsyncIterable<EventsItem["events"]>;
  /** Columns of `events` without the session, and the values of an item whose first event has this number. */
  readonly eventColumns: readonly string[];
  eventRows(item: EventsItem, first: number): readonly (readonly SqlValue[])[];
  /** Columns of `texts` without the reference, and the values of a text. */
  readonly textColumns: readonly string[];
  textRow(content: string): readonly SqlValue[];
  write(statements: readonly Statement[]): Promise<void>;
}

export interface Statement {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

export async function* readTables(db: CopyDialect): AsyncGenerator<ContentsItem, void> {
  const { query, parse } = db;
  // A session that is being deleted has no head.
  const texts = pages<TextRow>(
    db,
    `SELECT * FROM texts t WHERE ref > $1 AND EXISTS (
       SELECT 1 FROM text_references a JOIN heads h ON h.session = a.session WHERE a.ref = t.ref
     ) ORDER BY ref`,
    "ref",
  );
  for await (const row of texts("")) {
    yield { type: "text", ref: row.ref, content: await db.textIn(row) ?? "" };
  }

  const sessions = pages<{ key: number; json: string; touched: number }>(
    db,
    `SELECT key, json, touched_at_ms AS touched FROM sessions JOIN heads ON session = key
     WHERE key > $1 ORDER BY key`,
    "key",
  );
  for await (const { key, json, touched } of sessions(0)) {
    const session = parse(json) as SessionRecord;
    const { id: sessionId } = session;
    yield { type: "session", ...session, touchedAtMs: touched };
    for await (const events of db.events(key, sessionId)) yield { type: "events", sessionId, events };
    const state = await query<{ name: string; json: string }>(
      "SELECT name, json FROM state WHERE session = $1",
      [key],
    );
    for (const { name, json } of state) {
      yield { type: "state", sessionId, name: nameIn(name), value: parse(json) };
    }
    const archived = await query<{ ref: string }>("SELECT ref FROM text_references WHERE session = $1", [
      key,
    ]);
    for (const { ref } of archived) yield { type: "archived", sessionId, ref };
  }

  const named = pages<{ session: number; id: string; name_order: number }>(
    db,
    `SELECT session, id, name_order FROM heads JOIN sessions ON key = session WHERE name_order > $1 AND name_order > 0
     ORDER BY name_order`,
    "name_order",
  );
  for await (const { session, id } of named(0)) {
    const names = await query<{ name: string }>("SELECT name FROM names WHERE session = $1", [session]);
    yield { type: "names", sessionId: nameIn(id), names: names.map(({ name }) => nameIn(name)) };
  }

  const documents = pages<{ kind: string; id: string; json: string }>(
    db,
    "SELECT kind, id, json FROM documents WHERE (kind, id) > ($1, $2) ORDER BY kind, id",
    ...["kind", "id"] as const,
  );
  for await (const { json } of documents("", "")) {
    yield { type: "document", ...parse(json) as StoredDocument };
  }

  const deliveries = pages<DeliveryRow>(db, `${DELIVERIES} WHERE d.number > $1 ORDER BY d.number`, "number");
  for await (const row of deliveries(0)) yield { type: "delivery", ...deliveryIn(row, db) };

  const totals = pages<
    { day: string; kind: SessionRecord["kind"]; created_by: string; about: string; json: string }
  >(
    db,
    `SELECT day, kind, created_by, about, json FROM ${db.totals}
     WHERE (day, kind, created_by, about) > ($1, $2, $3, $4) ORDER BY day, kind, created_by, about`,
    ...["day", "kind", "created_by", "about"] as const,
  );
  for await (const { day, kind, created_by, about, json } of totals("", "", "", "")) {
    const by = created_by !== "" && { by: nameIn(created_by) };
    const totals = parse(json) as StoredTotalsRow["totals"];
    yield { type: "totals", kind, ...by, day: nameIn(day), about: nameIn(about), totals };
  }

  const keys = pages<
    & { scope: string; key: string; hash: string; atomic: number | boolean; touched: number }
    & { session: string | null; json: string | null }
  >(
    db,
    `SELECT scope, k.key, body_hash AS hash, is_atomic AS atomic, touched_at_ms AS touched, s.id AS session, k.json
     FROM keys k LEFT JOIN sessions s ON s.key = k.session
     WHERE (scope, k.key) > ($1, $2) ORDER BY scope, k.key`,
    ...["scope", "key"] as const,
  );
  for await (const { scope, key, hash, atomic, touched, session, json } of keys("", "")) {
    yield {
      type: "key",
      ...{ scope: nameIn(scope), key: nameIn(key), bodyHash: nameIn(hash), isAtomic: Boolean(atomic) },
      touchedAtMs: touched,
      ...(session !== null && { sessionId: nameIn(session) }),
      ...(json !== null && { answer: { response: parse(json) } }),
    };
  }
}

/** Returns a function that yields a query's rows in pages, each after the last row's values of these columns. */
export function pages<Row>(
  { query }: Pick<SqlDialect, "query">,
  sql: string,
  ...names: readonly (keyof Row & string)[]
): (...start: (string | number)[]) => AsyncGenerator<Row, void> {
  return async function* (...start) {
    for (let after = start;;) {
      const rows = await query<Row>(`${sql} LIMIT ${PAGE}`, after);
      yield* rows;
      if (rows.length < PAGE) return;
      const last = rows.at(-1)!;
      after = names.map((name) => last[name] as string | number);
    }
  };
}

/** An INSERT: the text before and after the rows, and one row with values `$1`, `$2` …. */
interface Insert {
  readonly before: string;
  readonly row: string;
  readonly after?: string;
}

const SESSION = "(SELECT key FROM sessions WHERE id = $1)";

export async function writeTables(db: CopyDialect, items: AsyncIterable<ContentsItem>): Promise<void> {
  // Referenced rows come first.
  const inserts = {
    texts: {
      before: `INSERT INTO texts (ref, ${db.textColumns.join()}) VALUES`,
      row: `($1, ${db.textColumns.map((_, at) => `$${at + 2}`).join()})`,
    },
    sessions: { before: "INSERT INTO sessions (id, json) VALUES", row: "($1, $2)" },
    heads: {
      before: "INSERT INTO heads (session, kind, created_by, parent, touched_at_ms) VALUES",
      row: `(${SESSION}, $2, $3, (
        SELECT p.key FROM sessions p JOIN sessions s ON s.id = $1 WHERE p.id = $4 AND p.key < s.key
      ), $5)`,
    },
    events: {
      before: `INSERT INTO events (session, ${db.eventColumns.join()}) VALUES`,
      row: `(${SESSION}, ${db.eventColumns.map((_, at) => `$${at + 2}`).join()})`,
    },
    state: { before: "INSERT INTO state VALUES", row: `(${SESSION}, $2, $3)` },
    text_references: { before: "INSERT INTO text_references (session, ref) VALUES", row: `(${SESSION}, $2)` },
    names: { before: "INSERT INTO names (session, name) VALUES", row: `(${SESSION}, $2)` },
    nameOrders: {
      before: "UPDATE heads SET name_order = CAST(given.column2 AS bigint) FROM (VALUES",
      row: "($1, $2)",
      after: ") AS given WHERE heads.session = (SELECT key FROM sessions WHERE id = given.column1)",
    },
    totals: {
      before: "INSERT INTO totals (day, kind, created_by, about, json) VALUES",
      row: "($1, $2, $3, $4, $5)",
    },
    documents: {
      before: "INSERT INTO documents (session, kind, id, json) VALUES",
      row: `(${SESSION}, $2, $3, $4)`,
    },
    deliveries: {
      before: "INSERT INTO deliveries (session, id, receiver, json, created_at_ms, due_at_ms, claims) VALUES",
      row: `(${SESSION}, $2, $3, $4, $5, $6, $7)`,
    },
    keys: {
      before:
        "INSERT INTO keys (session, scope, key, body_hash, owner, is_atomic, touched_at_ms, json) VALUES",
      row: `(${SESSION}, $2, $3, $4, '', $5, $6, $7)`,
    },
  } satisfies Record<string, Insert>;
  type Table = keyof typeof inserts;
  const batch = new Map<Table, (readonly SqlValue[])[]>();
  let [rows, chars] = [0, 0];
  const flush = async () => {
    const tables = Object.keys(inserts) as Table[];
    await db.write(tables.flatMap((table) => {
      const values = batch.get(table);
      return values ? statementOf(inserts[table], values) : [];
    }));
    batch.clear();
    [rows, chars] = [0, 0];
  };
  const add = (table: Table, ...values: readonly SqlValue[]) => {
    batch.set(table, [...batch.get(table) ?? [], values]);
    rows++;
    for (const value of values) if (typeof value === "string") chars += value.length;
  };
  let last = 0;
  let nameOrder = 0;
  for await (const item of items) {
    switch (item.type) {
      case "text":
        add("texts", item.ref, ...db.textRow(item.content));
        break;
      case "session": {
        const { id, kind, by, parent, touchedAtMs } = item;
        last = 0;
        add("sessions", columnText(id), db.toJson(plainRecord(item)));
        add("heads", columnText(id), kind, columnTextOrNull(by), columnTextOrNull(parent), touchedAtMs);
        break;
      }
      case "events":
        for (const row of db.eventRows(item, last + 1)) add("events", columnText(item.sessionId), ...row);
        last += item.events.length;
        break;
      case "state":
        add("state", columnText(item.sessionId), columnText(item.name), db.toJson(item.value));
        break;
      case "archived":
        add("text_references", columnText(item.sessionId), item.ref);
        break;
      case "names":
        add("nameOrders", columnText(item.sessionId), ++nameOrder);
        for (const name of item.names) add("names", columnText(item.sessionId), columnText(name));
        break;
      case "totals": {
        const { day, kind, by = "", about, totals } = item;
        add("totals", columnText(day), kind, columnText(by), columnText(about), db.toJson(totals));
        break;
      }
      case "document": {
        const { kind, id, sessionId } = item;
        const json = db.toJson(plainDocument(item));
        add("documents", columnTextOrNull(sessionId), columnText(kind), columnText(id), json);
        break;
      }
      case "delivery": {
        const { id, receiver, sessionId, value, createdAtMs, dueAtMs = null, claims } = item;
        const names = [columnText(id), columnText(receiver)];
        add(
          "deliveries",
          columnTextOrNull(sessionId),
          ...names,
          db.toJson(value),
          createdAtMs,
          dueAtMs,
          claims,
        );
        break;
      }
      case "key": {
        const { scope, key, bodyHash, isAtomic, touchedAtMs, sessionId, answer } = item;
        const names = [scope, key, bodyHash].map(columnText);
        const json = answer ? db.toJson(answer.response) : null;
        add("keys", columnTextOrNull(sessionId), ...names, isAtomic, touchedAtMs, json);
        break;
      }
    }
    if (rows >= BATCH || chars >= BATCH_CHARS) await flush();
  }
  await flush();
}

function statementOf({ before, row, after = "" }: Insert, rows: readonly (readonly SqlValue[])[]): Statement {
  const [{ length = 0 } = []] = rows;
  const places = rows.map((_, at) =>
    row.replaceAll(/\$(\d)/g, (_, number: string) => `$${at * length + Number(number)}`)
  );
  return { sql: `${before} ${places.join()} ${after}`, values: rows.flat() };
}
