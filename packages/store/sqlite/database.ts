import { dirname, resolve } from "@std/path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { StoreError } from "../store_error.ts";
import { corruptError, lockedError, toOpenError, toStoreError } from "./file_error.ts";
import { APPLICATION_ID, type Migration } from "./migrations.ts";

/** A prepared statement. */
export interface Statement<Row> {
  /** Runs it and gives how many rows it changed. */
  run(...values: SQLInputValue[]): number;
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
}

/** An open SQLite file that is this process's alone. Everything throws a {@linkcode StoreError} if the file fails. */
export interface Database {
  readonly path: string;
  /** Prepares a statement. The caller knows the form of its rows. */
  prepare<Row = never>(sql: string): Statement<Row>;
  /** Runs `write` as one transaction: it is committed when this returns, or undone and the error thrown on. */
  transaction<T>(write: () => T): T;
  /** Closes the file; a second call does nothing. */
  close(): void;
}

/** How a file is opened. */
export interface DatabaseOptions {
  /** The history of such files: see {@linkcode MIGRATIONS}. */
  readonly migrations: readonly Migration[];
  /** Largest size of the file. Default: no limit. */
  readonly maxBytes?: number;
}

const PAGE_BYTES = 4096;

/** Files up to this size are checked as a whole at open: 1 ms per MiB if the system has it in memory, else up to 7. */
const CHECKED_BYTES = 64 * 2 ** 20;

/**
 * Opens a SQLite file, makes it if it isn't there (for its owner alone, the folder too) and brings it to the newest
 * version of the schema.
 *
 * Two locks keep other processes out, and the system releases both when a process ends, however it ends. SQLite's own
 * keeps other programs out, but on POSIX systems it is lost as soon as anything in this process opens and closes
 * the file by itself; so a lock file beside it keeps a second store out in any case.
 *
 * @throws {StoreError} if it can't be opened or is no store.
 */
export function openDatabase(path: string, options: DatabaseOptions): Database {
  const file = resolve(path);
  let lock: Deno.FsFile | undefined;
  let connection: DatabaseSync | undefined;
  try {
    Deno.mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    lock = Deno.openSync(`${file}.lock`, { create: true, write: true, mode: 0o600 });
    if (!lock.tryLockSync(true)) throw lockedError(file);
    createFile(file);
    connection = new DatabaseSync(file, { enableForeignKeyConstraints: false });
    prepareFile(connection, { ...options, file });
  } catch (error) {
    connection?.close();
    release(lock);
    throw toOpenError(error, file);
  }
  return databaseOver(connection, { file, lock });
}

/**
 * Closing the lock file isn't enough: a process that another thread is just starting holds the same open file until it
 * runs its program, and the lock with it.
 */
function release(lock: Deno.FsFile | undefined): void {
  lock?.unlockSync();
  lock?.close();
}

function createFile(file: string): void {
  try {
    Deno.openSync(file, { createNew: true, write: true, mode: 0o600 }).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    // SQLite takes an empty file for a new one and deletes its log, with all that was committed.
    if (sizeOf(file) === 0 && sizeOf(`${file}-wal`) > 0) {
      throw corruptError(file, `it is empty, but ${file}-wal holds what was written to it`);
    }
  }
}

function sizeOf(file: string): number {
  try {
    return Deno.statSync(file).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

function prepareFile(
  connection: DatabaseSync,
  { file, migrations, maxBytes }: DatabaseOptions & { readonly file: string },
): void {
  connection.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON");
  const version = schemaVersion(connection, file);
  if (version > migrations.length) {
    throw new StoreError(
      "newer_version",
      `Cannot open the store ${file}: its schema is version ${version}, and this program knows up to ` +
        `${migrations.length}. Use the program that wrote it or a newer one, or another file.`,
    );
  }
  // What is committed survives the process at once, and a power failure from the next checkpoint on. FULL would wait
  // for the disk at each commit: milliseconds for every word of every answer, in which nothing else can run.
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  if (maxBytes !== undefined) {
    connection.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / PAGE_BYTES))}`);
  }
  if (sizeOf(file) <= CHECKED_BYTES) {
    const found = firstValue(connection, "PRAGMA quick_check(1)");
    if (found !== "ok") throw corruptError(file, String(found).replaceAll("\n", " "));
  }
  migrate(connection, { version, migrations });
  connection.exec("PRAGMA foreign_keys = ON");
}

/** The version of the schema; 0 of a file that is new. */
function schemaVersion(connection: DatabaseSync, file: string): number {
  const id = firstValue(connection, "PRAGMA application_id");
  if (id === APPLICATION_ID) return Number(firstValue(connection, "PRAGMA user_version"));
  if (id === 0 && firstValue(connection, "SELECT count(*) FROM sqlite_schema") === 0) return 0;
  throw corruptError(file, "it is another program's database");
}

function migrate(
  connection: DatabaseSync,
  { version, migrations }: { readonly version: number; readonly migrations: readonly Migration[] },
): void {
  for (const [index, step] of migrations.entries()) {
    if (index < version) continue;
    // Whoever fails closes the connection, which undoes what stands behind the last COMMIT.
    connection.exec("BEGIN IMMEDIATE");
    step(connection);
    connection.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${index + 1}; COMMIT`);
  }
}

function firstValue(connection: DatabaseSync, sql: string): unknown {
  return Object.values(connection.prepare(sql).get() ?? {})[0];
}

function databaseOver(
  connection: DatabaseSync,
  { file, lock }: { readonly file: string; readonly lock: Deno.FsFile },
): Database {
  const guard = <T>(act: () => T): T => {
    try {
      return act();
    } catch (error) {
      throw toStoreError(error, file);
    }
  };
  const prepare = <Row>(sql: string): Statement<Row> => {
    const statement = guard(() => connection.prepare(sql));
    return {
      run: (...values) => Number(guard(() => statement.run(...values)).changes),
      get: (...values) => guard(() => statement.get(...values)) as Row | undefined,
      all: (...values) => guard(() => statement.all(...values)) as Row[],
    };
  };
  const begin = prepare("BEGIN IMMEDIATE");
  const commit = prepare("COMMIT");
  const rollback = prepare("ROLLBACK");
  return {
    path: file,
    prepare,
    transaction(write) {
      begin.run();
      try {
        const result = write();
        commit.run();
        return result;
      } catch (error) {
        // SQLite has undone it by itself after some errors.
        if (connection.isTransaction) rollback.run();
        throw error;
      }
    },
    close() {
      if (!connection.isOpen) return;
      try {
        connection.close();
      } finally {
        release(lock);
      }
    },
  };
}
