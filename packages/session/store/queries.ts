import { type Archive, archiveRef } from "@tare/prune";
import { columnText, intact, nameIn, searchedJson } from "./json_text.ts";
import type {
  ListedSession,
  SessionRecord,
  Store,
  StoredDelivery,
  StoredDocument,
  StoredTotalsRow,
} from "./port.ts";
import { noSessionError } from "./store_error.ts";

export type SqlValue = string | number | boolean | null | Uint8Array | readonly string[];

/** Differences between SQLite and PostgreSQL for shared SQL over tables of the same names. */
export interface SqlDialect {
  /** SQLite runs it synchronously. */
  query<Row>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /** Parses a JSON column. @throws {StoreError} `corrupt` if it is damaged. */
  parse(json: string): unknown;
  /** Returns SQL of a table `list` of a list parameter, with the columns `value` and `key`, the position. */
  list(parameter: string): string;
  contains(text: string, parameter: string): string;
  /** Returns SQL of an index search for titles that contain the text in a parameter. Absent: there is no index. */
  findsTitles?(parameter: string): string;
  readonly searched: number;
  /** SQL of a session's last event, fencing number, and whether it is held, by its head `h`. */
  readonly last: string;
  readonly fence: string;
  readonly isHeld: string;
  readonly totals: string;
  /**
   * Returns the text of a row of `texts`; `undefined` if it was deleted.
   *
   * @throws {StoreError} `corrupt` if it is damaged.
   */
  textIn(row: TextRow): Promise<string | undefined>;
}

export interface TextRow {
  readonly ref: string;
  /** Compressed. Null: it is damaged, or in an object store. */
  readonly zstd: Uint8Array<ArrayBuffer> | null;
  readonly object?: string | null;
}

const KINDS = ["agent", "gateway"] as const satisfies readonly SessionRecord["kind"][];

interface ListRow {
  readonly json: string;
  readonly last: number;
  readonly totals: string | null;
  readonly title: string | null;
  readonly is_held: boolean | number;
}

export interface DeliveryRow {
  readonly number: number;
  readonly id: string;
  readonly receiver: string;
  readonly session: string | null;
  readonly json: string;
  readonly made: number;
  readonly due: number | null;
  readonly claims: number;
}

export const DELIVERIES =
  `SELECT d.number, d.id, d.receiver, s.id AS session, d.json, d.created_at_ms AS made, d.due_at_ms AS due, d.claims
   FROM deliveries d LEFT JOIN sessions s ON s.key = d.session`;

export function deliveryIn(
  { id, receiver, session, json, made, due, claims }: DeliveryRow,
  { parse }: Pick<SqlDialect, "parse">,
): StoredDelivery {
  return {
    ...{ id: nameIn(id), receiver: nameIn(receiver), value: parse(json), createdAtMs: made, claims },
    ...(session !== null && { sessionId: nameIn(session) }),
    ...(due !== null && { dueAtMs: due }),
  };
}

export function columnTextOrNull(name: string | undefined): string | null {
  return name === undefined ? null : columnText(name);
}

/** Returns the dialect-independent queries of a store. `commit` and `now` are the store's. */
export function storeQueries(
  db: SqlDialect,
  { commit, now }: Pick<Store, "commit" | "now">,
): Pick<
  Store,
  | "getSession"
  | "listSessions"
  | "readTotals"
  | "countSessions"
  | "idleSessions"
  | "findByName"
  | "lastEvent"
  | "readState"
  | "sessionsWith"
  | "getDocument"
  | "listDocuments"
  | "archive"
  | "readTexts"
  | "listDeliveries"
  | "getDelivery"
  | "expireDeliveries"
> {
  const { query, parse, list } = db;
  const first = async <Row>(sql: string, values: readonly SqlValue[]): Promise<Row | undefined> =>
    (await query<Row>(sql, values))[0];
  const ofSession = async <Row>(id: string, sql: string, values: readonly SqlValue[] = []): Promise<Row> => {
    const row = await first<Row>(sql, [columnText(id), ...values]);
    if (!row) throw noSessionError(id);
    return row;
  };
  const listed = ({ json, last, totals, title, is_held }: ListRow): ListedSession => ({
    ...parse(json) as SessionRecord,
    lastEvent: last,
    ...(totals !== null && { totals: parse(totals) }),
    ...(title !== null && { title: parse(title) }),
    ...(is_held && { isHeld: true }),
  });
  // In SQLite CROSS JOIN preserves the table order.
  const rows =
    `SELECT s.json, ${db.last} AS last, totals.json AS totals, titles.json AS title, ${db.isHeld} AS is_held
    FROM page CROSS JOIN heads h CROSS JOIN sessions s
      LEFT JOIN state totals ON totals.session = s.key AND totals.name = 'totals'
      LEFT JOIN titles ON titles.session = s.key
    WHERE h.session = page.session AND s.key = page.session ORDER BY page.session DESC`;
  const readTexts: Store["readTexts"] = async (id, refs) => {
    const found = await query<TextRow>(
      `SELECT t.*, a.ref FROM sessions s JOIN text_references a ON a.session = s.key LEFT JOIN texts t ON t.ref = a.ref
       WHERE s.id = $1 AND a.ref IN (SELECT value FROM ${list("$2")})`,
      [columnText(id), refs.map(columnText)],
    );
    const texts = new Map<string, string>();
    await fewAtOnce(found, async (row) => {
      const content = await db.textIn(row);
      if (content !== undefined) texts.set(row.ref, content);
      else for (const [ref, again] of await readTexts(id, [row.ref])) texts.set(ref, again);
    });
    return texts;
  };
  return {
    async getSession(id) {
      const row = await first<{ json: string }>("SELECT json FROM sessions WHERE id = $1", [columnText(id)]);
      return row && parse(row.json) as SessionRecord;
    },
    async listSessions({ kind, limit = 100, after, search = "", by, forks = true } = {}) {
      const { key } = after === undefined
        ? { key: Number.MAX_SAFE_INTEGER }
        : await ofSession<{ key: number }>(after, "SELECT key FROM sessions WHERE id = $1");
      const kinds = KINDS.filter((one) => kind === undefined || one === kind);
      const also = (by === undefined ? "" : " AND created_by = $3") + (forks ? "" : " AND parent IS NULL");
      // One index search per kind, so that the time doesn't depend on the number of sessions.
      const each = kinds.map((kind) =>
        `SELECT * FROM (SELECT session FROM heads WHERE kind = '${kind}' AND session < $1${also}
           ORDER BY session DESC LIMIT $2) AS ${kind}s`
      );
      const newest = `SELECT session FROM (${
        each.join(" UNION ALL ")
      }) AS newest ORDER BY session DESC LIMIT $2`;
      const of = by === undefined ? [] : [columnText(by)];
      const page = async (sql: string, values: readonly SqlValue[]) =>
        (await query<ListRow>(`WITH ${sql} ${rows}`, values)).map(listed);
      if (search === "") return await page(`page AS MATERIALIZED (${newest})`, [key, limit, ...of]);
      const [text, most] = [`$${of.length + 3}`, `$${of.length + 4}`];
      const near = await page(
        `searched AS MATERIALIZED (${newest}), page AS MATERIALIZED (
           SELECT session FROM searched
           WHERE EXISTS (
             SELECT 1 FROM titles WHERE titles.session = searched.session AND ${db.contains("folded", text)}
           ) ORDER BY session DESC LIMIT ${most}
         )`,
        [key, db.searched, ...of, searchedJson(search), limit],
      );
      if (near.length >= limit || !db.findsTitles) return near;
      const edge = await first<{ session: number }>(
        `SELECT session FROM (${newest}) AS searched ORDER BY session DESC LIMIT 1 OFFSET ${db.searched - 1}`,
        [key, db.searched, ...of],
      );
      if (!edge) return near;
      const far = await page(
        `found AS MATERIALIZED (
           SELECT session FROM titles WHERE ${db.findsTitles(text)} AND ${
          db.contains("folded", text)
        } AND session < $1
         ), page AS MATERIALIZED (
           SELECT session FROM found JOIN heads USING (session) WHERE kind IN (${
          kinds.map((kind) => `'${kind}'`).join()
        })${also} ORDER BY session DESC LIMIT $2
         )`,
        [edge.session, limit - near.length, ...of, searchedJson(search)],
      );
      return [...near, ...far];
    },
    async readTotals({ kind, by, from, to }) {
      const found = await query<
        Omit<StoredTotalsRow, "by" | "totals"> & { created_by: string; json: string }
      >(
        `SELECT kind, created_by, day, about, json FROM ${db.totals} WHERE day BETWEEN $1 AND $2
           AND (CAST($3 AS text) IS NULL OR kind = $3) AND (CAST($4 AS text) IS NULL OR created_by = $4)`,
        [columnText(from), columnText(to), kind ?? null, columnTextOrNull(by)],
      );
      return found.map(({ kind, created_by, day, about, json }) => ({
        ...{ kind, day: nameIn(day), about: nameIn(about) },
        ...(created_by !== "" && { by: nameIn(created_by) }),
        totals: parse(json) as StoredTotalsRow["totals"],
      }));
    },
    async countSessions(kind) {
      const row = await first<{ count: number }>(
        `SELECT CAST(coalesce(sum(sessions), 0) AS bigint) AS count FROM session_counts
         WHERE CAST($1 AS text) IS NULL OR kind = $1`,
        [kind ?? null],
      );
      return row!.count;
    },
    async idleSessions({ kind, beforeMs, limit }) {
      const found = await query<{ id: string }>(
        `SELECT s.id FROM heads h JOIN sessions s ON s.key = h.session WHERE h.kind = $1 AND h.touched_at_ms <= $2
         ORDER BY h.touched_at_ms, h.session LIMIT $3`,
        [kind, Math.floor(beforeMs), limit],
      );
      return found.map(({ id }) => nameIn(id));
    },
    async findByName(names, limit = 16) {
      const found = await query<{ id: string; fence: number }>(
        `SELECT s.id, ${db.fence} AS fence FROM ${list("$1")} JOIN names n ON n.name = list.value
           JOIN heads h ON h.session = n.session JOIN sessions s ON s.key = n.session
         GROUP BY s.key, h.session ORDER BY min(list.key), h.name_order DESC LIMIT $2`,
        [names.map(columnText), limit],
      );
      return found.map(({ id, fence }) => ({ id: nameIn(id), fence }));
    },
    lastEvent: async (id) =>
      (await ofSession<{ last: number }>(
        id,
        `SELECT ${db.last} AS last FROM sessions s JOIN heads h ON h.session = s.key WHERE s.id = $1`,
      )).last,
    async readState(id, name) {
      const { json } = await ofSession<{ json: string | null }>(
        id,
        "SELECT t.json FROM sessions s LEFT JOIN state t ON t.session = s.key AND t.name = $2 WHERE s.id = $1",
        [columnText(name)],
      );
      return json === null ? undefined : parse(json);
    },
    async sessionsWith(name) {
      const found = await query<{ id: string; json: string; is_held: boolean | number }>(
        `SELECT s.id, t.json, ${db.isHeld} AS is_held
         FROM pending_work t JOIN heads h ON h.session = t.session JOIN sessions s ON s.key = t.session WHERE t.name = $1`,
        [name],
      );
      return found.map(({ id, json, is_held }) => ({
        id: nameIn(id),
        value: parse(json),
        ...(is_held && { isHeld: true }),
      }));
    },
    async getDocument(kind, id) {
      const row = await first<{ json: string }>(
        "SELECT json FROM documents WHERE kind = $1 AND id = $2",
        [columnText(kind), columnText(id)],
      );
      return row && parse(row.json) as StoredDocument;
    },
    async listDocuments(kind, damaged) {
      const found = await query<{ id: string; json: string }>(
        "SELECT id, json FROM documents WHERE kind = $1 ORDER BY id",
        [columnText(kind)],
      );
      return intact(found, ({ json }) => parse(json) as StoredDocument, damaged);
    },
    archive: (sessionId): Archive => ({
      async put(content) {
        const ref = await archiveRef(content);
        await commit([{ type: "archive", sessionId, ref, content }]);
        return ref;
      },
      get: async (ref) => (await readTexts(sessionId, [ref])).get(ref),
    }),
    readTexts,
    async listDeliveries(receiver, { limit = 100, before } = {}) {
      const found = await query<DeliveryRow>(
        `${DELIVERIES} WHERE d.receiver = $1
           AND (CAST($2 AS text) IS NULL OR d.number < (SELECT number FROM deliveries WHERE id = $2))
         ORDER BY d.number DESC LIMIT $3`,
        [columnText(receiver), columnTextOrNull(before), limit],
      );
      return found.map((row) => deliveryIn(row, db));
    },
    async getDelivery(id) {
      const row = await first<DeliveryRow>(`${DELIVERIES} WHERE d.id = $1`, [columnText(id)]);
      return row && deliveryIn(row, db);
    },
    async expireDeliveries({ receiver, olderThanMs, keep }) {
      await query(
        `DELETE FROM deliveries WHERE receiver = $1 AND (created_at_ms < $2 OR number <= (
           SELECT number FROM deliveries WHERE receiver = $1 ORDER BY number DESC LIMIT 1 OFFSET $3
         ))`,
        [columnText(receiver), Math.max(0, Math.floor(now() - olderThanMs)), keep],
      );
    },
  };
}

/** Returns the milliseconds until the next delivery to one of these receivers is due; `undefined` if none is. */
export async function nextDelivery(
  { query, list }: Pick<SqlDialect, "query" | "list">,
  { receivers, nowMs }: { readonly receivers: readonly string[]; readonly nowMs: number },
): Promise<number | undefined> {
  const [row] = await query<{ next: number | null }>(
    `SELECT min(due) AS next FROM (SELECT (
       SELECT min(due_at_ms) FROM deliveries WHERE receiver = list.value AND due_at_ms IS NOT NULL
     ) AS due FROM ${list("$1")}) AS each`,
    [receivers.map(columnText)],
  );
  return row?.next == null ? undefined : Math.max(0, row.next - nowMs);
}

const AT_ONCE = 16;

export async function fewAtOnce<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  let hasFailed = false;
  const work = async () => {
    for (const item of left) {
      if (hasFailed) return;
      await act(item);
    }
  };
  const workers = Array.from({ length: Math.min(AT_ONCE, items.length) }, work);
  await Promise.all(workers).catch(async (error) => {
    hasFailed = true;
    await Promise.allSettled(workers);
    throw error;
  });
}
