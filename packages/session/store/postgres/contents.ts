import type { StoreContents } from "../contents.ts";
import { type CopyDialect, pages, readTables, writeTables } from "../copied_tables.ts";
import { columnText, jsonText } from "../json_text.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { StoreError } from "../store_error.ts";
import { connectionsTo, type OwnConnection } from "./connections.ts";
import { databaseName } from "./database_error.ts";
import { checkObjects, postgresDialect } from "./open_postgres.ts";
import { archivedText } from "./records.ts";
import { createTables } from "./schema.ts";

/** Statement timeout in milliseconds: the disk may still be busy with earlier statements. */
const STATEMENT_MS = 150_000;

const LIMITS = {
  timeoutMs: 2 * STATEMENT_MS,
  connectMs: STATEMENT_MS,
  statementMs: STATEMENT_MS,
  lockMs: STATEMENT_MS,
};

/** Options of a database's contents. */
export interface PostgresContentsOptions {
  /** Its name in errors. Default: its address without user and password. */
  readonly name?: string;
  /** Default: none. */
  readonly objects?: ObjectStore | undefined;
}

/**
 * Opens the contents of a PostgreSQL database, which servers can't use meanwhile. Texts are read from the database or
 * object store, and written to the database.
 *
 * @example
 * ```ts
 * import { copyContents } from "@tare/session";
 * import { openPostgresContents } from "@tare/session/postgres";
 * import { openFileContents } from "@tare/session/sqlite";
 *
 * async function moveInto(url: string, path: string) {
 *   const [from, to] = [openFileContents(path), await openPostgresContents(url)];
 *   const { counts } = await copyContents(from, to);
 *   await Promise.all([from.close(), to.close()]);
 *   return counts;
 * }
 * ```
 *
 * @throws {StoreError} if it can't be reached, and `locked` if servers use it.
 */
export async function openPostgresContents(
  url: string,
  { name = databaseName(url), objects }: PostgresContentsOptions = {},
): Promise<StoreContents> {
  const connections = connectionsTo({ url, place: name, maxConnections: 1, ...LIMITS });
  const connection = await connections.open();
  try {
    await createTables(connection, name);
    // One transaction, which is rolled back without `commit()`.
    await connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await connection.query("LOCK TABLE tare.servers IN SHARE ROW EXCLUSIVE MODE");
    const [servers] = await connection.query<{ count: number }>(
      "SELECT count(*)::integer AS count FROM tare.servers s WHERE NOT tare.is_expired(s)",
    );
    if (servers!.count > 0) {
      const advice = "Stop them; a killed server counts for some more seconds.";
      throw new StoreError("locked", `Cannot open ${name}: ${servers!.count} servers use it. ${advice}`);
    }
    await checkObjects(connection, { place: name, objects, takes: false });
  } catch (error) {
    await connection.close();
    throw error;
  }
  const dialect = copyDialect(connection, postgresDialect(connection.query, { place: name, objects }));
  return {
    name,
    async isEmpty() {
      const tables = ["heads", "keys", "totals", "totals_pending"].map((table) =>
        `EXISTS (SELECT FROM ${table})`
      );
      const [row] = await connection.query<{ found: boolean }>(`SELECT ${tables.join(" OR ")} AS found`);
      return !row!.found;
    },
    async *read() {
      await connection.query("SELECT tare.fold_totals()");
      yield* readTables(dialect);
    },
    async write(items) {
      await writeTables(dialect, items);
      await connection.query(
        "UPDATE heads h SET last = e.last FROM (SELECT session, max(first + count - 1) AS last FROM events GROUP BY session) e " +
          "WHERE h.session = e.session",
      );
      await connection.query(
        "SELECT setval('name_order_sequence', 1 + (SELECT coalesce(max(name_order), 0) FROM heads))",
      );
    },
    async commit() {
      await connection.query("COMMIT");
      await connection.query("ANALYZE");
      await connection.query("BEGIN");
    },
    close: () => connection.close(),
  };
}

function copyDialect(
  connection: OwnConnection,
  dialect: ReturnType<typeof postgresDialect>,
): CopyDialect {
  const events = pages<{ session: number; first: number; json: string }>(
    dialect,
    "SELECT session, first, json FROM events WHERE session = $1 AND first > $2 ORDER BY first",
    ...["session", "first"] as const,
  );
  return {
    ...dialect,
    toJson: jsonText,
    async *events(session) {
      for await (const { json } of events(session, 0)) {
        yield JSON.parse(json) as { readonly type: string }[];
      }
    },
    eventColumns: ["first", "count", "types", "json"],
    eventRows: ({ events }, first) => {
      const types = [...new Set(events.map(({ type }) => columnText(type)))];
      return [[first, events.length, types, `[${events.map(jsonText).join()}]`]];
    },
    textColumns: ["sha256", "bytes", "zstd"],
    textRow(content) {
      const { sha256, bytes, zstd } = archivedText(content);
      return [sha256, bytes, zstd];
    },
    async write(statements) {
      for (const { sql, values } of statements) await connection.query(sql, values);
    },
  };
}
