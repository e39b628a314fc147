import { createHash } from "node:crypto";
import { zstdDecompressSync } from "node:zlib";
import { type Archive, archiveRef } from "@tare/prune";
import { textFromBytes } from "@tare/prune/internal";
import { columnText, intact, nameIn, searchedJson } from "../json_text.ts";
import type {
  ListedSession,
  SessionRecord,
  SharedStore,
  Store,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredSums,
  StoreRecord,
} from "../port.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { noSessionError, StoreError } from "../store_error.ts";
import {
  assertSessions,
  type Connections,
  connectionsTo,
  type OwnConnection,
  type Value,
} from "./connections.ts";
import { databaseName } from "./database_error.ts";
import { type Leases, openLeases } from "./leases.ts";
import { migrate } from "./migrations.ts";
import { addRecord, CallList, type Command, fewAtOnce, largeTexts, type StoredText } from "./records.ts";
import { asRefusal, refused } from "./refusals.ts";

/** Events and texts of a removed session that one statement frees. */
const SLICE = 1000;

/** Sessions that one statement weighs, or takes away because their time is over. */
const EXPIRED = 50;

/**
 * Opens the store in a PostgreSQL database, 15 or newer, which any number of processes have open at the same time:
 * `postgres://user:password@host:port/database`. Its tables are made in the schema `tare` if they aren't there.
 *
 * A session is changed by the opening that holds it: see {@linkcode SharedStore}. A commit is one statement. One whose
 * connection is lost on its way is sent again on another, and done once. If that isn't possible in time, it fails with
 * a `StoreError` of code `io`, and whether it was done is for the next reader to see.
 *
 * The connection needs prepared statements and notifications: between the two may stand nothing that hands out
 * connections by transaction, which is tried.
 *
 * @throws {StoreError} if the database can't be reached, refuses, is too old, something hands out connections to it by
 * transaction, or a newer program made its tables.
 */
export async function openPostgresStore(url: string, options: {
  /**
   * Milliseconds since the epoch, by which keys and idle sessions expire. Default: the database's clock, so that no server's
   * own one decides for the others.
   */
  readonly now?: () => number;
  /** Connections for reading and writing; there is one more for what openings tell each other. Default: 4. */
  readonly maxConnections?: number;
  /**
   * How long a statement is tried, in milliseconds, on new connections where one is lost, before that is an error.
   * Default: 10,000.
   */
  readonly timeoutMs?: number;
  /** How long one attempt may take, in milliseconds. Default: half of `timeoutMs`. */
  readonly statementMs?: number;
  /** How long it may wait for a lock, in milliseconds, before it is tried again. Default: as long as it may take. */
  readonly lockMs?: number;
  /** How long a connection may take to be made, in milliseconds. Default: half of `timeoutMs` or `leaseMs`, whichever is less. */
  readonly connectMs?: number;
  /** How long others leave this opening its sessions when nothing is heard of it, in milliseconds. Default: 10,000. */
  readonly leaseMs?: number;
  /** How often it lets itself be heard, in milliseconds. Default: a third of `leaseMs`. */
  readonly renewMs?: number;
  /** Milliseconds of a clock that only goes forward; leases go by it. Default: `performance.now`. */
  readonly clock?: () => number;
  /**
   * Where archived texts are put that take over 16 KiB compressed, before the commit that refers to them: the same for all
   * who open this database. Where it fails they stay in the database. Default: they all do.
   */
  readonly objects?: ObjectStore | undefined;
  /** Told in a sentence when the object store has failed, once until it can be used again. */
  readonly onWarning?: (line: string) => void;
} = {}): Promise<
  Store & { readonly shared: SharedStore }
> {
  const { timeoutMs = 10_000, maxConnections = 4, leaseMs = 10_000, renewMs = leaseMs / 3 } = options;
  const { statementMs = timeoutMs / 2, lockMs = statementMs, connectMs = Math.min(timeoutMs, leaseMs) / 2 } =
    options;
  const { now, clock = () => performance.now() } = options;
  if (!/^postgres(ql)?:\/\//.test(url)) {
    throw new TypeError(
      "Cannot open a store: its URL isn't of the form postgres://user:password@host:port/database",
    );
  }
  const place = databaseName(url);
  const connections = connectionsTo({
    ...{ url, place, maxConnections },
    ...{ timeoutMs, connectMs, statementMs, lockMs },
  });
  try {
    await assertSessions(() => connections.open(), { place, waitMs: timeoutMs });
    const connection = await connections.open();
    try {
      await migrate(connection, { place });
      await checkObjects(connection, { place, objects: options.objects, takes: true });
    } finally {
      await connection.close();
    }
    const leases = await openLeases(connections, { leaseMs, renewMs, clock });
    const store = storeOver(connections, {
      ...{ leases, place, givenNow: now },
      ...{ objects: options.objects, warn: options.onWarning ?? (() => {}) },
      now: now ?? (() => Date.now() + leases.aheadMs()),
    });
    await store.sweep();
    return store.port;
  } catch (error) {
    await connections.close();
    throw error;
  }
}

function storeOver(
  connections: Connections,
  { leases, place, now, givenNow, objects, warn }: {
    readonly leases: Leases;
    readonly objects: ObjectStore | undefined;
    readonly warn: (line: string) => void;
    readonly place: string;
    readonly now: () => number;
    /** By which keys expire. Nothing: by the database's clock. */
    readonly givenNow: (() => number) | undefined;
  },
): { readonly port: Store & { readonly shared: SharedStore }; sweep(): Promise<void> } {
  let closing: Promise<void> | undefined;
  const query = async <Row>(sql: string, values: readonly Value[] = []): Promise<Row[]> => {
    if (closing) throw new Error("Cannot use the store: it is closed");
    try {
      return await connections.query<Row>(sql, values);
    } catch (error) {
      throw asRefusal(error);
    }
  };
  /** Claims that may have been made though nobody heard of it. */
  const unsure = new Set<string>();
  leases.onRenewed(async () => {
    const claims = [...unsure];
    if (claims.length === 0) return;
    await query(
      `WITH lost AS (DELETE FROM tare.keys WHERE claim_id = ANY ($1) AND json IS NULL AND NOT was_claimed)
         UPDATE tare.keys SET owner = '' WHERE claim_id = ANY ($1) AND json IS NULL AND was_claimed`,
      [claims],
    );
    for (const claim of claims) unsure.delete(claim);
  });
  const first = async <Row>(sql: string, values?: readonly Value[]): Promise<Row | undefined> =>
    (await query<Row>(sql, values))[0];
  /** Of a session that is there: its row, in which what wasn't found is null. */
  const ofSession = async <Row>(id: string, sql: string, values: readonly Value[] = []): Promise<Row> => {
    const row = await first<Row>(sql, [columnText(id), ...values]);
    if (!row) throw noSessionError(id);
    return row;
  };
  const large = objects && largeTexts({ objects, query, warn });
  /** Writes to these sessions, when what was written to them before is there, and the large texts are where they belong. */
  const writeRaw = (
    sessionIds: Iterable<string>,
    fill: (calls: CallList, texts: ReadonlyMap<string, StoredText>) => void,
    records: readonly StoreRecord[] = [],
  ) =>
    leases.inOrder([...new Set(sessionIds)], async () => {
      if (closing) throw new Error("Cannot use the store: it is closed");
      const [commitId, nowMs] = [crypto.randomUUID(), Math.floor(now())];
      let texts = await large?.put(records) ?? new Map();
      for (;;) {
        const writer = await leases.writer();
        const calls = new CallList(writer, { commitId, nowMs });
        fill(calls, texts);
        const { sql, values } = calls.command();
        try {
          await connections.query(sql, values);
          return calls.wasDone();
        } catch (error) {
          if (refused(error, "wasDone")) return calls.wasDone();
          if (large && refused(error, "textGone")) {
            texts = await large.put(records);
            continue;
          }
          // One before it was done though nobody heard of that in time.
          const other = refused(error, "otherCommits");
          const place = other && writer.placeOf(nameIn(other.about));
          if (!place) throw error;
          place.committed(Number(other.more));
        }
      }
    });
  const write = async (...written: Parameters<typeof writeRaw>) => {
    try {
      await writeRaw(...written);
    } catch (error) {
      throw asRefusal(error);
    }
  };
  const commit: Store["commit"] = async (records) => {
    if (records.length === 0) return;
    await write(sessionsOf(records), (calls, texts) => {
      for (const record of records) addRecord(calls, record, texts);
    }, records);
  };
  const commitBriefly: SharedStore["commitBriefly"] = async ({ sessionId, fence, records }) => {
    const makes = records.findIndex((record) => record.type === "session" && record.id === sessionId);
    try {
      await writeRaw([sessionId, ...sessionsOf(records)], (calls, texts) => {
        if (makes < 0) calls.holdBriefly(sessionId, fence);
        for (const [at, record] of records.entries()) {
          addRecord(calls, record, texts);
          if (at === makes) calls.holdBriefly(sessionId, fence);
        }
      }, records);
    } catch (error) {
      if (refused(error, "notFree")) return undefined;
      throw asRefusal(error);
    }
    return fence + 1;
  };
  const sweep = async () => {
    while (!closing && (await first<{ more: boolean }>("SELECT tare.sweep($1) AS more", [SLICE]))?.more);
    await large?.sweep();
  };

  const readTexts: Store["readTexts"] = async (id, refs) => {
    const rows = await query<{ ref: string; zstd: Uint8Array | null; object: string | null }>(
      `SELECT t.ref, t.zstd, t.object FROM tare.sessions s JOIN tare.archived a ON a.session = s.key
         JOIN tare.texts t ON t.ref = a.ref WHERE s.id = $1 AND a.ref = ANY ($2)`,
      [columnText(id), refs.map(columnText)],
    );
    const texts = new Map<string, string>();
    await fewAtOnce(rows, async ({ ref, zstd, object }) => {
      const bytes = zstd ?? await objects!.get(object!);
      if (bytes) return void texts.set(ref, unpack(bytes, { ref, place }));
      // Nobody has it any more, unless it came again.
      const isThere = await first("SELECT 1 FROM tare.texts WHERE ref = $1 AND object = $2", [ref, object]);
      if (isThere) throw noObjectError({ ref, object: object!, place, objects: objects! });
      for (const [, content] of await readTexts(id, [ref])) texts.set(ref, content);
    });
    return texts;
  };

  const port: Store & { readonly shared: SharedStore } = {
    shared: { ...leases.shared, commitBriefly },
    now,
    commit,
    async getSession(id) {
      const row = await first<{ json: string }>("SELECT json FROM tare.sessions WHERE id = $1", [
        columnText(id),
      ]);
      return row && JSON.parse(row.json);
    },
    async listSessions({ kind, limit = 100, after, search = "", by, forks = true } = {}) {
      const { key } = after === undefined
        ? { key: Number.MAX_SAFE_INTEGER }
        : await ofSession<{ key: number }>(after, "SELECT key FROM tare.sessions WHERE id = $1");
      const which = { kinds: KINDS.filter((one) => kind === undefined || one === kind), by, forks };
      const list = (listing: Command) => query<ListRow>(listing.sql, listing.values);
      if (search === "") return (await list(listing(which, { key, limit }))).map(listed);
      const text = searchedJson(search);
      const near = await list(listing(which, { key, limit, text }));
      if (near.length >= limit) return near.map(listed);
      const { sql, values } = lastLookedAt(which, key);
      const edge = await first<{ session: number }>(sql, values);
      const far = edge
        ? await list(listingByTitle(which, { key: edge.session, limit: limit - near.length, text }))
        : [];
      return [...near, ...far].map(listed);
    },
    async readSums({ kind, by, from, to }) {
      const rows = await query<Omit<StoredSums, "by" | "sums"> & { made_by: string; json: string }>(
        `SELECT kind, made_by, day, about, json::text AS json
         FROM (SELECT * FROM tare.sums UNION ALL SELECT * FROM tare.sums_added) AS every
         WHERE day COLLATE "C" BETWEEN $1 AND $2 AND ($3::text IS NULL OR kind = $3) AND ($4::text IS NULL OR made_by = $4)`,
        [columnText(from), columnText(to), kind ?? null, by === undefined ? null : columnText(by)],
      );
      return rows.map(({ made_by, day, about, json, kind }) => ({
        kind,
        ...(made_by !== "" && { by: nameIn(made_by) }),
        day: nameIn(day),
        about: nameIn(about),
        sums: JSON.parse(json),
      }));
    },
    async countSessions(kind) {
      const [where, values] = kind === undefined ? ["", []] : [" WHERE kind = $1", [kind]];
      const sql = `SELECT coalesce(sum(sessions), 0)::bigint AS count FROM tare.counted${where}`;
      return (await first<{ count: number }>(sql, values))!.count;
    },
    async idleSessions({ kind, beforeMs, limit }) {
      const rows = await query<{ id: string }>(
        `SELECT s.id FROM tare.heads h JOIN tare.sessions s ON s.key = h.session
         WHERE h.kind = $1 AND h.touched_at_ms <= $2::bigint ORDER BY h.touched_at_ms, s.key LIMIT $3`,
        [kind, Math.floor(beforeMs), limit],
      );
      return rows.map(({ id }) => nameIn(id));
    },
    async findNamed(names, limit = 16) {
      const rows = await query<{ id: string; fence: number }>(
        `SELECT s.id, h.fence FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, place)
           JOIN tare.names n USING (name) JOIN tare.heads h USING (session) JOIN tare.sessions s ON s.key = session
         GROUP BY s.key, h.session ORDER BY min(wanted.place), h.named DESC LIMIT $2`,
        [names.map(columnText), limit],
      );
      return rows.map(({ id, fence }) => ({ id: nameIn(id), fence }));
    },
    async deleteSession(id) {
      const isThere = await first("SELECT 1 FROM tare.sessions WHERE id = $1", [columnText(id)]);
      if (!isThere) return false;
      const { placeOf } = await leases.writer();
      try {
        await write([id], (calls) => calls.call("remove_session", ...calls.head(id)));
      } catch (error) {
        if (!(error instanceof Error && error.message === noSessionError(id).message)) throw error;
        // Who holds it has taken it away, and didn't hear of that. Else somebody else was first.
        if (!placeOf(id)) return false;
      }
      leases.forget(id);
      await sweep();
      return true;
    },
    async expireSessions({ kind, beforeMs, maxBytes }) {
      for (let last: number | null | undefined = 0; last !== null && last !== undefined;) {
        last = (await first<{ last: number | null }>(
          "SELECT tare.weigh($1, $2::bigint, $3::integer) AS last",
          [kind, last, EXPIRED],
        ))?.last;
      }
      const idleBeforeMs = Math.floor(beforeMs);
      const limits = [kind, idleBeforeMs, Math.min(Number.MAX_SAFE_INTEGER, Math.floor(maxBytes))];
      for (let expired = 0;;) {
        const row = await first<{ count: number }>(
          "SELECT tare.expire($1, $2::bigint, $3::bigint, $4::integer) AS count",
          [...limits, EXPIRED],
        );
        if (!row || row.count === 0) return expired;
        expired += row.count;
        await sweep();
      }
    },
    async readEvents(id, { after = 0, types, limit = Infinity } = {}) {
      const rows = await query<{ first: number | null; json: string }>(
        `SELECT e.first, e.json FROM tare.sessions s LEFT JOIN tare.events e ON e.session = s.key
           AND e.first > coalesce((SELECT max(first) FROM tare.events WHERE session = s.key AND first <= $2::bigint + 1), 0) - 1
           AND ($3::text[] IS NULL OR e.types && $3)
         WHERE s.id = $1 ORDER BY e.first LIMIT $4`,
        [
          columnText(id),
          Math.floor(after),
          types?.map(columnText) ?? null,
          Number.isFinite(limit) ? limit + 1 : null,
        ],
      );
      if (rows.length === 0) throw noSessionError(id);
      return eventsIn(rows, { id, place, after, types, limit });
    },
    lastEvent: async (id) =>
      (await ofSession<{ last: number }>(
        id,
        "SELECT h.last FROM tare.sessions s JOIN tare.heads h ON h.session = s.key WHERE s.id = $1",
      )).last,
    async readState(id, name) {
      const { json } = await ofSession<{ json: string | null }>(
        id,
        `SELECT t.json FROM tare.sessions s LEFT JOIN tare.state t ON t.session = s.key AND t.name = $2
         WHERE s.id = $1`,
        [columnText(name)],
      );
      return json === null ? undefined : JSON.parse(json);
    },
    async sessionsWith(name) {
      const rows = await query<{ id: string; json: string; is_held: boolean }>(
        `SELECT s.id, t.json, h.holder IS NOT NULL AND tare.is_there(h.holder) AS is_held
         FROM tare.attention t JOIN tare.heads h USING (session) JOIN tare.sessions s ON s.key = t.session
         WHERE t.name = $1`,
        [name],
      );
      return rows.map(({ id, json, is_held }) => ({
        id: nameIn(id),
        value: JSON.parse(json),
        ...(is_held && { isHeld: true }),
      }));
    },
    async getDocument(kind, id) {
      const row = await first<{ json: string }>(
        "SELECT json FROM tare.documents WHERE kind = $1 AND id = $2",
        [
          columnText(kind),
          columnText(id),
        ],
      );
      return row && JSON.parse(row.json) as StoredDocument;
    },
    async listDocuments(kind, damaged) {
      const rows = await query<{ id: string; json: string }>(
        'SELECT id, json FROM tare.documents WHERE kind = $1 ORDER BY id COLLATE "C"',
        [columnText(kind)],
      );
      return intact(rows, ({ json }) => JSON.parse(json) as StoredDocument, damaged);
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
    async claimKey({ scope, key, bodyHash, isAtomic = false }) {
      const claim = crypto.randomUUID();
      for (;;) {
        const { server } = await leases.writer();
        const row = await first<{ state: KeyState | "unknown"; response: string | null }>(
          "SELECT * FROM tare.claim_key($1, $2, $3, $4, $5, $6, $7, $8)",
          [
            ...[scope, key, bodyHash].map(columnText),
            isAtomic,
            server,
            claim,
            givenNow ? Math.floor(givenNow()) : null,
            DAY_MS,
          ],
        ).catch((error) => {
          unsure.add(claim);
          throw error;
        });
        const { state, response } = row!;
        if (state === "unknown") leases.lose(server);
        else return state === "done" ? { state, response: JSON.parse(response ?? "null") } : { state };
      }
    },
    async releaseKey({ scope, key }) {
      await query(
        "DELETE FROM tare.keys WHERE scope = $1 AND key = $2 AND owner = ANY ($3) AND json IS NULL",
        [
          columnText(scope),
          columnText(key),
          leases.names(),
        ],
      );
    },
    async claimDeliveries({ receivers, limit, forMs }) {
      const names = receivers.map(({ receiver }) => columnText(receiver));
      const nowMs = givenNow ? Math.floor(givenNow()) : null;
      const rows = await query<DeliveryRow>(
        `WITH chosen AS (
           SELECT d.number FROM unnest($1::text[], $2::integer[]) AS w (receiver, most) CROSS JOIN LATERAL (
             SELECT number, due_at_ms FROM tare.deliveries
             WHERE receiver = w.receiver AND due_at_ms <= coalesce($5::bigint, ${NOW_MS})
             ORDER BY due_at_ms, number LIMIT w.most FOR UPDATE SKIP LOCKED
           ) AS d ORDER BY d.due_at_ms, d.number LIMIT $3
         ), claimed AS (
           UPDATE tare.deliveries d SET claims = claims + 1, due_at_ms = coalesce($5::bigint, ${NOW_MS}) + $4::bigint
           FROM chosen WHERE d.number = chosen.number
           RETURNING d.id, d.receiver, d.session, d.json, d.made_at_ms AS made, d.due_at_ms AS due, d.claims, d.number
         )
         SELECT claimed.id, receiver, s.id AS session, claimed.json, made, due, claims
         FROM claimed LEFT JOIN tare.sessions s ON s.key = claimed.session ORDER BY claimed.number`,
        [names, receivers.map(({ limit }) => String(limit)), limit, Math.ceil(forMs), nowMs],
      );
      const next = await first<{ ms: number | null }>(
        `SELECT min(d.next) - coalesce($2::bigint, ${NOW_MS}) AS ms
         FROM unnest($1::text[]) AS w (receiver) CROSS JOIN LATERAL (
           SELECT min(due_at_ms) AS next FROM tare.deliveries
           WHERE receiver = w.receiver AND due_at_ms IS NOT NULL
         ) AS d`,
        [names, nowMs],
      );
      return {
        claimed: rows.map(deliveryIn),
        ...(next && next.ms !== null && { nextInMs: Math.max(0, next.ms) }),
      };
    },
    async listDeliveries(receiver, { limit = 100, before } = {}) {
      const rows = await query<DeliveryRow>(
        `${DELIVERIES} WHERE receiver = $1
           AND ($2::text IS NULL OR d.number < (SELECT number FROM tare.deliveries WHERE id = $2))
         ORDER BY d.number DESC LIMIT $3`,
        [columnText(receiver), before === undefined ? null : columnText(before), limit],
      );
      return rows.map(deliveryIn);
    },
    async getDelivery(id) {
      const row = await first<DeliveryRow>(`${DELIVERIES} WHERE d.id = $1`, [columnText(id)]);
      return row && deliveryIn(row);
    },
    async expireDeliveries({ receiver, olderThanMs, keep }) {
      await query(
        `DELETE FROM tare.deliveries WHERE receiver = $1 AND (
           made_at_ms < coalesce($4::bigint, ${NOW_MS}) - $2::bigint OR number <= (
             SELECT number FROM tare.deliveries WHERE receiver = $1 ORDER BY number DESC LIMIT 1 OFFSET $3
           ))`,
        [
          columnText(receiver),
          Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(olderThanMs)),
          keep,
          givenNow ? Math.floor(givenNow()) : null,
        ],
      );
    },
    close: () =>
      closing ??= (large?.close() ?? Promise.resolve())
        .then(() => leases.close()).finally(() => connections.close()),
  };
  return { port, sweep };
}

/** The sessions that these records have to do with. */
function sessionsOf(records: readonly StoreRecord[]): string[] {
  return records.flatMap((record) =>
    record.type === "session" ? [record.id] : "sessionId" in record ? [record.sessionId ?? ""] : []
  );
}

/** The database's clock. */
const NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

const DELIVERIES =
  `SELECT d.id, d.receiver, s.id AS session, d.json, d.made_at_ms AS made, d.due_at_ms AS due, d.claims
   FROM tare.deliveries d LEFT JOIN tare.sessions s ON s.key = d.session`;

interface DeliveryRow {
  readonly id: string;
  readonly receiver: string;
  readonly session: string | null;
  readonly json: string;
  readonly made: number;
  readonly due: number | null;
  readonly claims: number;
}

function deliveryIn({ id, receiver, session, json, made, due, claims }: DeliveryRow): StoredDelivery {
  return {
    ...{ id: nameIn(id), receiver: nameIn(receiver), value: JSON.parse(json), madeAtMs: made, claims },
    ...(session !== null && { sessionId: nameIn(session) }),
    ...(due !== null && { dueAtMs: due }),
  };
}

const KINDS = ["agent", "gateway"] as const satisfies readonly SessionRecord["kind"][];

/** So many of the newest sessions are looked through for a title before the index of titles is asked. */
const LOOKED_THROUGH = 5_000;

/** Which sessions a list holds. */
interface Listed {
  readonly kinds: readonly SessionRecord["kind"][];
  readonly by: string | undefined;
  readonly forks: boolean;
}

interface ListRow {
  readonly json: string;
  readonly last: number;
  readonly totals: string | null;
  readonly title: string | null;
  readonly is_held: boolean;
}

function listed({ json, last, totals, title, is_held }: ListRow): ListedSession {
  return {
    ...JSON.parse(json),
    lastEvent: last,
    ...(totals !== null && { totals: JSON.parse(totals) }),
    ...(title !== null && { title: JSON.parse(title) }),
    ...(is_held && { isHeld: true }),
  };
}

/** What lists tell of the sessions of a table `page`. */
const LIST_ROWS = `SELECT s.json, h.last, totals.json AS totals, titles.json AS title,
     h.holder IS NOT NULL AND tare.is_there(h.holder) AS is_held
   FROM page JOIN tare.heads h USING (session) JOIN tare.sessions s ON s.key = session
     LEFT JOIN tare.state totals ON totals.session = s.key AND totals.name = 'totals'
     LEFT JOIN tare.titles ON titles.session = s.key
   ORDER BY h.session DESC`;

/** Whether a folded title holds the text that is sought, the last of the values. */
const holds = (title: string, text: string) =>
  `strpos((${title}) COLLATE "C", ${text}::text COLLATE "C") > 0`;

/** Conditions of a list beside the kind, and their values behind `$2`. */
function conditions({ by, forks }: Listed): { readonly where: string; readonly values: readonly Value[] } {
  const of = by === undefined ? "" : " AND made_by = $3";
  return {
    where: of + (forks ? "" : " AND parent IS NULL"),
    values: by === undefined ? [] : [columnText(by)],
  };
}

/** The newest `$2` sessions in front of the key `$1`, of each kind by an index, so that it takes as long however many there are. */
function newest(which: Listed): string {
  const { where } = conditions(which);
  const each = which.kinds.map((kind) =>
    `(SELECT session FROM tare.heads WHERE kind = '${kind}' AND session < $1::bigint${where}
       ORDER BY session DESC LIMIT $2::bigint)`
  );
  return `SELECT session FROM (${each.join(" UNION ALL ")}) AS each ORDER BY session DESC LIMIT $2::bigint`;
}

/** A list of the newest in front of a key; with a text those of some whose title holds it. */
function listing(
  which: Listed,
  { key, limit, text }: { readonly key: number; readonly limit: number; readonly text?: string },
): Command {
  const { values } = conditions(which);
  if (text === undefined) {
    return {
      sql: `WITH page AS MATERIALIZED (${newest(which)}) ${LIST_ROWS}`,
      values: [key, limit, ...values],
    };
  }
  const title = "SELECT folded FROM tare.titles WHERE titles.session = looked.session";
  const [at, most] = [values.length + 3, values.length + 4];
  const sql = `WITH looked AS MATERIALIZED (${newest(which)}), page AS MATERIALIZED (
    SELECT session FROM looked WHERE ${holds(title, `$${at}`)} ORDER BY session DESC LIMIT $${most}::bigint
  ) ${LIST_ROWS}`;
  return { sql, values: [key, LOOKED_THROUGH, ...values, text, limit] };
}

/** The last of those that are looked through; nothing if there are no more behind it. */
function lastLookedAt(which: Listed, key: number): Command {
  const sql = `SELECT session FROM (${newest(which)}) AS looked OFFSET ${LOOKED_THROUGH - 1}`;
  return { sql, values: [key, LOOKED_THROUGH, ...conditions(which).values] };
}

/** A list by the index of titles: of a text that hardly any of the newest has. */
function listingByTitle(
  which: Listed,
  { key, limit, text }: { readonly key: number; readonly limit: number; readonly text: string },
): Command {
  const { where, values } = conditions(which);
  const at = `$${values.length + 3}`;
  const kinds = which.kinds.map((kind) => `'${kind}'`).join();
  const sql = `WITH found AS MATERIALIZED (
    SELECT session FROM tare.titles WHERE tare.grams(folded) @> tare.grams(${at}::text)
      AND ${holds("folded", at)} AND session < $1::bigint
  ), page AS MATERIALIZED (
    SELECT session FROM found JOIN tare.heads USING (session) WHERE kind IN (${kinds})${where}
      ORDER BY session DESC LIMIT $2::bigint
  ) ${LIST_ROWS}`;
  return { sql, values: [key, limit, ...values, text] };
}

type KeyState = Awaited<ReturnType<Store["claimKey"]>>["state"];

const DAY_MS = 24 * 60 * 60 * 1000;

/** The events of rows that are asked for. */
function eventsIn(
  rows: readonly { readonly first: number | null; readonly json: string }[],
  { id, place, after, types, limit }: {
    readonly id: string;
    readonly place: string;
    readonly after: number;
    readonly types: readonly string[] | undefined;
    readonly limit: number;
  },
): StoredEvent[] {
  const read: StoredEvent[] = [];
  let next: number | undefined;
  for (const { first, json } of rows) {
    if (first === null) break;
    if (!types && next !== undefined && first !== next) {
      const message =
        `Cannot read the store ${place}: session ${id} lacks event ${next}. Restore it from a backup.`;
      throw new StoreError("corrupt", message);
    }
    const events: StoredEvent["event"][] = JSON.parse(json);
    next = first + events.length;
    for (const [index, event] of events.entries()) {
      const number = first + index;
      if (read.length >= limit) return read;
      if (number > after && (types?.includes(event.type) ?? true)) read.push({ number, event });
    }
  }
  return read;
}

/**
 * Whoever opens a database must have the object store that texts of it are in; as long as there are none it `takes` its
 * own for that.
 *
 * @throws {StoreError} if it has another one, or none.
 */
export async function checkObjects(
  connection: OwnConnection,
  { place, objects, takes }: {
    readonly place: string;
    readonly objects: ObjectStore | undefined;
    readonly takes: boolean;
  },
): Promise<void> {
  const own = takes ? objects?.name ?? null : null;
  const [row] = await connection.query<{ place: string | null }>("SELECT tare.objects_in($1) AS place", [
    own,
  ]);
  const found = row?.place ?? undefined;
  if (found === undefined || found === objects?.name) return;
  throw new StoreError(
    "io",
    `Cannot open the store ${place}: texts of its archive are in ${found}, and ` +
      `${
        objects ? `it was opened with ${objects.name}` : "it was opened without an object store"
      }. Set TARE_ARCHIVE to ` +
      "that bucket.",
  );
}

/** What is said of a text whose object is gone. */
export function noObjectError({ ref, object, place, objects }: {
  readonly ref: string;
  readonly object: string;
  readonly place: string;
  readonly objects: ObjectStore;
}): StoreError {
  return new StoreError(
    "corrupt",
    `Cannot read the archived text ${ref} in the store ${place}: ${objects.name} has no ${object}. Restore it there.`,
  );
}

/** The text, if it is what its reference says. */
function unpack(zstd: Uint8Array, { ref, place }: { readonly ref: string; readonly place: string }): string {
  const damaged = (how: string, options?: ErrorOptions) =>
    new StoreError(
      "corrupt",
      `Cannot read the archived text ${ref} in the store ${place}: it was damaged, ${how}. Restore it from a backup.`,
      options,
    );
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(zstdDecompressSync(zstd));
  } catch (cause) {
    throw damaged("it can't be decompressed", { cause });
  }
  if (createHash("sha256").update(bytes).digest("hex").startsWith(ref)) return textFromBytes(bytes);
  throw damaged("its content has another hash");
}
