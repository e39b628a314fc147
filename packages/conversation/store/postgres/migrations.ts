import { StoreError } from "../store_error.ts";
import type { Connection } from "./connections.ts";
import { FUNCTIONS } from "./functions.ts";
import { LEASE_FUNCTIONS } from "./lease_functions.ts";
import { TABLES } from "./tables.ts";

/**
 * The history of the database: the SQL at index `n` makes version `n + 1` of version `n`, in one transaction. Databases
 * of every version that was released exist, and servers of the version before may be running, so what was released is
 * never changed, only added to. Nothing was yet.
 */
const MIGRATIONS: readonly string[] = [TABLES + FUNCTIONS + LEASE_FUNCTIONS];

/** Oldest server that this was tried with. */
const LEAST_SERVER = 15;

/** Keeps two that open a new database at once from making its tables twice: "tare" in ASCII. */
const LOCK = 0x74617265;

/**
 * Brings the database to the newest version of the schema, unless another opening does so: then that is waited for.
 * Default history: that of stores.
 *
 * @throws {StoreError} `newer_version` if a newer program wrote it.
 */
export async function migrate(
  connection: Connection,
  { place, history = MIGRATIONS }: { readonly place: string; readonly history?: readonly string[] },
): Promise<void> {
  const [server] = await connection.query<{ version: string; number: number }>(
    "SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number",
  );
  if (server!.number < LEAST_SERVER * 10_000) {
    throw new StoreError(
      "io",
      `Cannot open the store ${place}: this is PostgreSQL ${server!.version}. Use ${LEAST_SERVER} or newer.`,
    );
  }
  const newest = history.length;
  if (await versionOf(connection, { place, newest }) === newest) return;
  await connection.query("BEGIN");
  try {
    await connection.query("SET LOCAL statement_timeout = 0");
    await connection.query(`SELECT pg_advisory_xact_lock(${LOCK})`);
    const version = await versionOf(connection, { place, newest });
    if (version === 0) {
      // Who may not make schemas may have been given this one.
      const [found] = await connection.query("SELECT 1 FROM pg_namespace WHERE nspname = 'tare'");
      if (!found) await connection.query("CREATE SCHEMA tare");
      await connection.query("CREATE TABLE tare.schema_version (version integer NOT NULL)");
      await connection.query("INSERT INTO tare.schema_version VALUES (0)");
    }
    for (const step of history.slice(version)) await connection.query(step);
    await connection.query(`UPDATE tare.schema_version SET version = ${newest}`);
    await connection.query("COMMIT");
  } catch (error) {
    // What the connection's own end undoes needs no more.
    await connection.query("ROLLBACK").catch(() => {});
    throw error;
  }
}

async function versionOf(
  connection: Connection,
  { place, newest }: { readonly place: string; readonly newest: number },
): Promise<number> {
  // Not to_regclass(), which may not know yet what another opening has made since this one last asked.
  const [found] = await connection.query(
    "SELECT 1 FROM pg_tables WHERE schemaname = 'tare' AND tablename = 'schema_version'",
  );
  if (!found) return 0;
  const [row] = await connection.query<{ version: number }>("SELECT version FROM tare.schema_version");
  const version = row?.version ?? 0;
  if (version > newest) {
    throw new StoreError(
      "newer_version",
      `Cannot open the store ${place}: its schema is version ${version}, and this program knows up to ` +
        `${newest}. Use the program that wrote it or a newer one, or another database.`,
    );
  }
  return version;
}
