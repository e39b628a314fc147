import { existsSync, renameSync, rmSync } from "node:fs";
import type { StoreContents } from "../contents.ts";
import { type CopyDialect, pages, readTables, writeTables } from "../copied_tables.ts";
import { columnText, promiseOf } from "../json_text.ts";
import { packText } from "../texts.ts";
import { type Database, inputValue, openDatabase, toStoredJson } from "./database.ts";
import { sqliteDialect } from "./dialect.ts";
import { corruptError } from "./file_error.ts";
import { SCHEMA } from "./schema.ts";

/**
 * Opens the contents of a SQLite file, for this process only. The file need not exist.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { sumContents } from "@tare/session/internal";
 * import { openFileContents, openStore } from "@tare/session/sqlite";
 *
 * const path = `${await Deno.makeTempDir()}/tare.db`;
 * const store = await openStore(path);
 * await store.commit([{ type: "session", kind: "agent", id: "s1", createdAtMs: Date.now(), settings: {} }]);
 * await store.close();
 * const contents = openFileContents(path);
 * assertEquals((await sumContents(contents)).counts.sessions, 1);
 * await contents.close();
 * ```
 *
 * @throws {StoreError} as `openStore` does.
 */
export function openFileContents(path: string): StoreContents {
  const open = (path: string) => openDatabase(path, { schema: SCHEMA });
  let database = existsSync(path) || existsSync(`${path}-wal`) ? open(path) : undefined;
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
      if (read) yield* readTables(copyDialect(read));
    },
    async write(items) {
      removePart();
      written = open(part);
      await writeTables(copyDialect(written), items);
    },
    commit() {
      return promiseOf(() => {
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
  const tables = ["heads", "keys", "totals"].map((table) => `SELECT 1 FROM ${table}`);
  return database.query(`${tables.join(" UNION ALL ")} LIMIT 1`).length === 0;
}

function copyDialect(database: Database): CopyDialect {
  const dialect = sqliteDialect(database);
  const events = pages<{ session: number; number: number; json: string }>(
    dialect,
    "SELECT session, number, json FROM events WHERE session = $1 AND number > $2 ORDER BY number",
    ...["session", "number"] as const,
  );
  return {
    ...dialect,
    toJson: toStoredJson,
    async *events(session, sessionId) {
      let last = 0;
      for await (const { number, json } of events(session, 0)) {
        if (number !== ++last) throw corruptError(database.path, `session ${sessionId} lacks event ${last}`);
        yield [dialect.parse(json) as { readonly type: string }];
      }
    },
    eventColumns: ["number", "type", "json"],
    eventRows: ({ events }, first) =>
      events.map((event, index) => [first + index, columnText(event.type), toStoredJson(event)]),
    textColumns: ["zstd"],
    textRow: (content) => [packText(content)],
    write: (statements) =>
      promiseOf(() =>
        database.transaction(() => {
          for (const { sql, values } of statements) {
            database.prepare(sql.replaceAll("$", "?")).run(...values.map(inputValue));
          }
        })
      ),
  };
}
