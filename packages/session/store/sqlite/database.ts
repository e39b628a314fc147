import {
  closeSync,
  copyFileSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { dirname, resolve } from "@std/path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import { folded, jsonText } from "../json_text.ts";
import type { SqlValue } from "../queries.ts";
import { StoreError } from "../store_error.ts";
import { corruptError, goneError, lostError, toOpenError, toStoreError } from "./file_error.ts";
import { APPLICATION_ID, type Schema } from "./schema.ts";

/** A prepared statement. */
interface Statement<Row> {
  /** Runs it and gives how many rows it changed. */
  run(...values: SQLInputValue[]): number;
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
}

/** An open SQLite file that is this process's alone. Everything throws a {@linkcode StoreError} if the file fails. */
export interface Database {
  readonly path: string;
  readonly isInMemory: boolean;
  /** What of it is lost, as a sentence; the file itself, once it is gone. Nothing: nothing that is known. */
  readonly damage: string | undefined;
  /** Prepares a statement that is used once. The caller knows the form of its rows. */
  prepare<Row = never>(sql: string): Statement<Row>;
  /** Runs a statement with the values `$1`, `$2` …, prepared once, and returns its rows. */
  query<Row>(sql: string, values?: readonly SqlValue[]): Row[];
  /** Runs such a statement and returns how many rows it changed. */
  run(sql: string, ...values: readonly SqlValue[]): number;
  /**
   * Runs `write` as one transaction: it is committed, in the file that stands under its name, when this returns; or
   * undone and the error thrown on.
   */
  transaction<T>(write: () => T): T;
  /** The same for a write that makes room: on a full disk it gets what is held in reserve for it. */
  release<T>(write: () => T): T;
  /** Holds room in reserve again, once what was released has made some. */
  restock(): void;
  /** Gives up to so many unused pages back to the system, and tells how many are left. */
  shrink(pages: number): number;
  /**
   * Lets the file be as it is now, with all that was committed: what is written from now on stands in its log alone.
   *
   * @throws {StoreError} `locked` if that is so already.
   */
  freeze(): FrozenFile;
  /** Closes the file; a second call does nothing. */
  close(): void;
}

/** A file that stays as it is while its store is in use. */
interface FrozenFile {
  /** By which it can be read. It isn't to be closed. */
  readonly descriptor: number;
  readonly bytes: number;
  /** Whether it is still as it was: it changes if the disk is full and its log's room is needed, and at the store's end. */
  readonly isWhole: () => boolean;
  /** Lets it change again. */
  readonly thaw: () => void;
}

/** How a file is opened. */
interface DatabaseOptions {
  readonly schema: Schema;
  /** Largest size of the file. Default: no limit. */
  readonly maxBytes?: number | undefined;
  /** Room on the disk that is held for {@linkcode Database.release}. Default: none. */
  readonly reserveBytes?: number;
  /** Told in a sentence of what is missing though the file can be used. Default: nobody is. */
  readonly onWarning?: (sentence: string) => void;
}

/**
 * Size of a page: whatever changes in one is written as a whole, to the log and then to the file. Most of what a commit
 * changes are short rows in many places.
 */
const PAGE_BYTES = 1024;

/** Files up to this size are checked as a whole at open: 1 ms per MiB if the system has it in memory, else up to 7. */
const CHECKED_BYTES = 64 * 2 ** 20;

/** SQLite's smallest page: it takes a file with less for an empty one. */
const LEAST_BYTES = 512;

/** How much larger than it may be a file gets for a moment when something is removed from it. */
const RELEASE_BYTES = 4 * 2 ** 20;

/** Unused pages that are worth waiting for the disk to give them back at once: one MiB. */
const MANY_PAGES = 1024;

/** Size to which the log is cut once what it holds is in the file. */
const LOG_BYTES = 8 * 2 ** 20;

/** Pages of the log from which on what it holds is copied into the file. */
const LOG_PAGES = 8_000;

/**
 * Opens a SQLite file, and creates it with its tables if there is none (for its owner only, the folder too).
 *
 * Two locks keep other processes out, both SQLite's, and the system releases them when a process ends, however it
 * ends. That of the file keeps other programs out, but on POSIX systems it is lost as soon as anything in this process
 * opens and closes the file by itself; so that of a file beside it keeps a second store out in any case.
 *
 * @throws {StoreError} if it can't be opened or is no store.
 */
export function openDatabase(path: string, options: DatabaseOptions): Database {
  const file = resolve(path);
  let lock: DatabaseSync | undefined;
  let connection: DatabaseSync | undefined;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    lock = openLock(`${file}.lock`);
    lock.exec("BEGIN IMMEDIATE");
    const wasThere = firstValue(lock, "PRAGMA user_version") === 1;
    createFile(file, wasThere);
    const found = damageOfLog(`${file}-wal`);
    const damage = found && keepDamagedLog(file, found);
    if (damage !== undefined) options.onWarning?.(damage);
    connection = new DatabaseSync(file);
    prepareFile(connection, { ...options, file });
    // Else the same damage would be told of again.
    if (damage !== undefined) connection.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    if (!wasThere) markLock(lock);
    const reserve = openReserve(`${file}.reserve`, options.reserveBytes ?? 0);
    return databaseOver(connection, { file, lock, reserve, damage, maxBytes: options.maxBytes });
  } catch (error) {
    connection?.close();
    lock?.close();
    throw toOpenError(error, file);
  }
}

export function openMemory(schema: Schema): Database {
  const connection = new DatabaseSync(":memory:");
  setUp(connection);
  connection.exec("PRAGMA auto_vacuum = INCREMENTAL");
  connection.exec(schema.sql);
  return databaseOver(connection, { file: ":memory:" });
}

function setUp(connection: DatabaseSync): void {
  connection.exec("PRAGMA foreign_keys = ON");
  connection.function("folded", { deterministic: true }, (json) => folded(String(json)));
}

/** A file that holds nothing but whether there was a store beside it. */
function openLock(path: string): DatabaseSync {
  try {
    // To open and close it where it is there already would lose the lock that this process may have.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!existsSync(path)) throw error;
  }
  const lock = new DatabaseSync(path);
  // What is locked stays so from one transaction to the next.
  lock.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE");
  return lock;
}

/** Notes in the lock that there is a store now, so that one that is gone isn't taken for one that never was. */
function markLock(lock: DatabaseSync): void {
  try {
    lock.exec("PRAGMA user_version = 1; COMMIT");
  } catch {
    // There is no room for it on the disk; the next start tries again.
    if (lock.isTransaction) lock.exec("ROLLBACK");
  }
  lock.exec("BEGIN IMMEDIATE");
}

function createFile(file: string, wasThere: boolean): void {
  const held = sizeOf(`${file}-wal`) > 0 ? `${file}-wal holds what was written to it` : undefined;
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  // SQLite takes such a file for a new one and deletes its log, with all that was committed.
  if (size === 0 && held) throw corruptError(file, `it is empty, but ${held}`);
  if (size === undefined && held) throw corruptError(file, `it is missing, but ${held}`);
  if (wasThere && !size) throw goneError(file, size === 0 ? "empty" : "missing");
  if (size === undefined) closeSync(openSync(file, "wx", 0o600));
  else if (size > 0 && size < LEAST_BYTES) throw corruptError(file, `it has only ${size} bytes`);
}

/** Keeps a copy of a damaged log, which the next write would overwrite, and says what is known. */
function keepDamagedLog(file: string, { frame, frames }: LogDamage): string {
  const copy = `${file}-wal.damaged`;
  let kept = "";
  try {
    copyFileSync(`${file}-wal`, copy);
    kept = ` The log is kept as ${copy}.`;
  } catch {
    // There is no room for it; what can be read is read in any case.
  }
  const place = frame === 0 ? "at its beginning" : `in part ${frame} of ${frames}`;
  return `The log of the store ${file} is damaged ${place}: what was written from there on is missing.${kept}`;
}

function prepareFile(
  connection: DatabaseSync,
  { file, schema, maxBytes }: DatabaseOptions & { readonly file: string },
): void {
  setUp(connection);
  connection.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON");
  const version = schemaVersion(connection, file);
  if (version !== 0 && version !== schema.version) {
    throw new StoreError(
      "other_version",
      `Cannot open the store ${file}: its schema is version ${version}, and this program's is ${schema.version}. ` +
        "Use the program that wrote it, or another file.",
    );
  }
  // It takes effect before there is a table.
  if (version === 0) connection.exec(`PRAGMA page_size = ${PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL`);
  // What is committed survives the process at once, and a power failure from the next checkpoint on. FULL would wait
  // for the disk at each commit: milliseconds for every word of every answer, in which nothing else can run.
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  connection.exec(`PRAGMA journal_size_limit = ${LOG_BYTES}; PRAGMA wal_autocheckpoint = ${LOG_PAGES}`);
  limitSize(connection, maxBytes);
  if (sizeOf(file) <= CHECKED_BYTES) {
    const found = firstValue(connection, "PRAGMA quick_check(1)");
    if (found !== "ok") throw corruptError(file, String(found).replaceAll("\n", " "));
  }
  if (version !== 0) return;
  connection.exec(
    `BEGIN IMMEDIATE; ${schema.sql};
     PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${schema.version}; COMMIT`,
  );
}

function limitSize(connection: DatabaseSync, maxBytes: number | undefined): void {
  if (maxBytes === undefined) return;
  connection.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(maxBytes / PAGE_BYTES))}`);
}

function schemaVersion(connection: DatabaseSync, file: string): number {
  const id = firstValue(connection, "PRAGMA application_id");
  if (id === APPLICATION_ID) return Number(firstValue(connection, "PRAGMA user_version"));
  if (id === 0 && firstValue(connection, "SELECT count(*) FROM sqlite_schema") === 0) return 0;
  throw corruptError(file, "it is another program's database");
}

function firstValue(connection: DatabaseSync, sql: string): unknown {
  return Object.values(connection.prepare(sql).get() ?? {})[0];
}

function databaseOver(
  connection: DatabaseSync,
  { file, lock, reserve = NO_RESERVE, damage, maxBytes }: Pick<DatabaseOptions, "maxBytes"> & {
    readonly file: string;
    /** Absent: it is in memory. */
    readonly lock?: DatabaseSync;
    readonly reserve?: Reserve;
    readonly damage?: string | undefined;
  },
): Database {
  // Reading makes sure that there is a log.
  firstValue(connection, "SELECT count(*) FROM sqlite_schema");
  const files = (lock ? [file, `${file}-wal`] : []).map((path) => ({ path, opened: statSync(path) }));
  let lost: string | undefined;
  let isClosed = false;
  const isThere = () => {
    lost ??= files.find(({ path, opened }) => !isFile(path, opened))?.path;
    return lost === undefined;
  };
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
  const [begin, commit, rollback] = [prepare("BEGIN IMMEDIATE"), prepare("COMMIT"), prepare("ROLLBACK")];
  const transaction = <T>(write: () => T): T => {
    if (lost !== undefined) throw lostError(lost);
    begin.run();
    let result: T;
    try {
      result = write();
      commit.run();
    } catch (error) {
      // SQLite has undone it by itself after some errors.
      if (connection.isTransaction) rollback.run();
      throw error;
    }
    if (!isThere()) throw lostError(lost ?? file);
    return result;
  };
  const prepared = new Map<string, Statement<unknown>>();
  const once = (sql: string) => {
    const statement = prepared.get(sql) ?? prepare<unknown>(sql.replaceAll("$", "?"));
    prepared.set(sql, statement);
    return statement;
  };
  const unused = prepare<{ readonly freelist_count: number }>("PRAGMA freelist_count");
  const countUnused = () => unused.get()?.freelist_count ?? 0;
  /** Pages that were given back since the file was last cut. */
  let given = 0;
  let frozen: { isWhole: boolean } | undefined;
  /** To close it before the connection would lose the file's lock. */
  let descriptor: number | undefined;
  const checkpoint = () => {
    if (frozen) frozen.isWhole = false;
    guard(() => connection.exec("PRAGMA wal_checkpoint(TRUNCATE)"));
  };
  return {
    path: file,
    isInMemory: lock === undefined,
    get damage() {
      return isClosed || isThere() ? damage : lostError(lost ?? file).message;
    },
    prepare,
    query: <Row>(sql: string, values: readonly SqlValue[] = []) =>
      once(sql).all(...values.map(inputValue)) as Row[],
    run: (sql, ...values) => once(sql).run(...values.map(inputValue)),
    transaction,
    release(write) {
      try {
        return transaction(write);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === "full")) throw error;
        reserve.give();
        limitSize(connection, maxBytes && maxBytes + RELEASE_BYTES);
        try {
          // The log's own room is needed too.
          checkpoint();
          return transaction(write);
        } finally {
          limitSize(connection, maxBytes);
        }
      }
    },
    restock: reserve.take,
    shrink(pages) {
      const before = countUnused();
      if (before === 0) return 0;
      // exec() would stop after the first page.
      guard(() => connection.prepare(`PRAGMA incremental_vacuum(${pages})`).all());
      const left = countUnused();
      given += before - left;
      // The next checkpoint cuts the file. It waits for the disk, so that a little isn't worth one of its own.
      if (left === 0 && given >= MANY_PAGES && !frozen) {
        checkpoint();
        given = 0;
      }
      return left;
    },
    freeze() {
      if (frozen) {
        throw new StoreError(
          "locked",
          `Cannot copy the store ${file}: it is being copied already. Wait for its end.`,
        );
      }
      checkpoint();
      guard(() => connection.exec("PRAGMA wal_autocheckpoint = 0"));
      descriptor ??= openSync(file, "r");
      const mine = frozen = { isWhole: true };
      return {
        descriptor,
        bytes: fstatSync(descriptor).size,
        isWhole: () => mine.isWhole,
        thaw() {
          if (frozen !== mine) return;
          frozen = undefined;
          if (!isClosed) guard(() => connection.exec(`PRAGMA wal_autocheckpoint = ${LOG_PAGES}`));
        },
      };
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      if (frozen) frozen.isWhole = false;
      try {
        // SQLite would delete the log by its name, which may be that of somebody else's file by now.
        if (isThere()) connection.close();
      } finally {
        if (descriptor !== undefined) closeSync(descriptor);
        lock?.close();
      }
    },
  };
}

/** Whether the file of this name is the one that was opened. Windows doesn't let go of the name of an open file. */
function isFile(path: string, { dev, ino }: Stats): boolean {
  const there = statSync(path, { throwIfNoEntry: false });
  return there?.ino === ino && there.dev === dev;
}

/** Returns a value as SQLite takes it: a list as JSON. */
export function inputValue(value: SqlValue): SQLInputValue {
  if (typeof value === "boolean") return Number(value);
  return Array.isArray(value) ? JSON.stringify(value) : value as SQLInputValue;
}

/** Characters of a checksum. */
const CRC_CHARS = 8;

/**
 * Returns the JSON of a value as it is stored, after its CRC-32: SQLite doesn't notice when a file's bytes change.
 *
 * @throws {TypeError} if JSON can't hold it.
 */
export function toStoredJson(value: unknown): string {
  const json = jsonText(value);
  return crc32(json).toString(16).padStart(CRC_CHARS, "0") + json;
}

/** Returns the value that was stored. @throws {StoreError} `corrupt` if these are other bytes than were written. */
export function fromStoredJson(stored: string, path: string): unknown {
  const json = stored.slice(CRC_CHARS);
  if (crc32(json) === parseInt(stored.slice(0, CRC_CHARS), 16)) return JSON.parse(json);
  throw corruptError(path, "a record was damaged, its checksum doesn't match");
}

const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** The first four bytes of a log whose checksums read words as little-endian; with big-endian ones it is one more. */
const LOG_MAGIC = 0x377f0682;

/** Longer logs aren't looked through. They hold more than one very large write. */
const MAX_LOG_BYTES = 64 * 2 ** 20;

/** Where a log is damaged: its `frame` (from 1) of `frames`. 0 is the header. */
interface LogDamage {
  readonly frame: number;
  readonly frames: number;
}

/**
 * Finds what SQLite doesn't tell: it reads a write-ahead log up to the first frame whose checksum is wrong, and takes
 * whatever stands behind for the rest of an earlier log. It was a damage if a commit of the same log stands behind.
 * Format and checksums: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
 *
 * @returns Nothing if the log is whole, empty or not there.
 */
function damageOfLog(file: string): LogDamage | undefined {
  const size = sizeOf(file);
  if (size <= LOG_HEADER_BYTES || size > MAX_LOG_BYTES) return undefined;
  const bytes = readFileSync(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const magic = view.getUint32(0);
  const pageBytes = view.getUint32(8);
  const sum = checksum(view, (magic & 1) === 0);
  const isHeader = (magic & ~1) === LOG_MAGIC && pageBytes >= 512 && sum.add(0, 24) && sum.isAt(24);
  if (!isHeader) return { frame: 0, frames: Math.floor(bytes.length / FRAME_HEADER_BYTES) };
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const frames = Math.floor((bytes.length - LOG_HEADER_BYTES) / frameBytes);
  const startOf = (frame: number) => LOG_HEADER_BYTES + (frame - 1) * frameBytes;
  const isOfLog = (at: number) =>
    view.getUint32(at + 8) === view.getUint32(16) && view.getUint32(at + 12) === view.getUint32(20);
  let frame = 1;
  for (; frame <= frames; frame++) {
    const at = startOf(frame);
    sum.add(at, 8);
    sum.add(at + FRAME_HEADER_BYTES, pageBytes);
    if (!isOfLog(at) || !sum.isAt(at + 16)) break;
  }
  for (let later = frame + 1; later <= frames; later++) {
    const at = startOf(later);
    const isCommit = view.getUint32(at + 4) !== 0;
    if (isCommit && isOfLog(at)) return { frame, frames };
  }
  return undefined;
}

/** The running checksum of a log. */
function checksum(view: DataView, isLittleEndian: boolean) {
  let [first, second] = [0, 0];
  return {
    /** Adds bytes, a multiple of eight. */
    add(at: number, length: number): true {
      for (let word = at; word < at + length; word += 8) {
        first = (first + view.getUint32(word, isLittleEndian) + second) >>> 0;
        second = (second + view.getUint32(word + 4, isLittleEndian) + first) >>> 0;
      }
      return true;
    },
    isAt: (at: number) => first === view.getUint32(at) && second === view.getUint32(at + 4),
  };
}

/** A file that holds room on the disk, to be given up when something must be written on a full one. */
interface Reserve {
  /** Gives the room up. */
  give(): void;
  /** Takes the room again, but at most half of what is free: the rest is for whoever made it free. */
  take(): void;
}

const NO_RESERVE: Reserve = { give() {}, take() {} };

const BLOCK_BYTES = 64 * 1024;

/** Opens the reserve in a file, and takes its room. */
function openReserve(file: string, bytes: number): Reserve {
  if (bytes === 0) return NO_RESERVE;
  const take = () => {
    if (sizeOf(file) === bytes) return;
    const size = fill(file, 2 * bytes);
    if (size > 0) truncateSync(file, Math.floor(size / 2));
  };
  take();
  return {
    give() {
      if (sizeOf(file) > 0) truncateSync(file, 0);
    },
    take,
  };
}

/** The size of a file; 0 if there is none. */
function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Appends until the file has this size or the disk is full, and gives its size. */
function fill(file: string, bytes: number): number {
  let size = 0;
  try {
    const opened = openSync(file, "a", 0o600);
    try {
      // Zeros would take no room where the file system compresses.
      const block = crypto.getRandomValues(new Uint8Array(BLOCK_BYTES));
      size = fstatSync(opened).size;
      while (size < bytes) size += writeSync(opened, block.subarray(0, bytes - size));
    } finally {
      closeSync(opened);
    }
  } catch {
    // The disk is full, or doesn't let itself be held: then less is, which only a deletion on a full disk may miss.
  }
  return size;
}
