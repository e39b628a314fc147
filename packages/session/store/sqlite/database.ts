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

interface Statement<Row> {
  run(...values: SQLInputValue[]): number;
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
}

/** An open SQLite file, locked by this process. Methods throw a {@linkcode StoreError} if the file fails. */
export interface Database {
  readonly path: string;
  readonly isInMemory: boolean;
  /** Known data loss or removal of the file, as a sentence. */
  readonly damage: string | undefined;
  prepare<Row = never>(sql: string): Statement<Row>;
  /** Runs a statement with the values `$1`, `$2` …, prepared once, and returns its rows. */
  query<Row>(sql: string, values?: readonly SqlValue[]): Row[];
  run(sql: string, ...values: readonly SqlValue[]): number;
  /** Rolled back if `write` throws. */
  transaction<T>(write: () => T): T;
  /** Runs a transaction that frees space; on a full disk it may use the reserve. */
  release<T>(write: () => T): T;
  restock(): void;
  /** Returns the number of remaining unused pages. */
  shrink(pages: number): number;
  /**
   * Freezes the file with everything committed; later writes go to its log only.
   *
   * @throws {StoreError} `locked` if it is frozen already.
   */
  freeze(): FrozenFile;
  close(): void;
}

interface FrozenFile {
  /** For reading; must not be closed. */
  readonly descriptor: number;
  readonly bytes: number;
  /** Returns whether it is unchanged: a full disk or closing the store may change it. */
  readonly isWhole: () => boolean;
  readonly thaw: () => void;
}

interface DatabaseOptions {
  readonly schema: Schema;
  readonly maxBytes?: number | undefined;
  /** Disk space reserved for {@linkcode Database.release}. Default: none. */
  readonly reserveBytes?: number;
  /** Called with a sentence about lost data of a usable file. Default: does nothing. */
  readonly onWarning?: (sentence: string) => void;
}

/** Small, as changed pages are written whole, and most commits change short rows in many places. */
const PAGE_BYTES = 1024;

/** Largest size of a file that is checked when opened: 1 ms per MiB from memory, up to 7 from disk. */
const CHECKED_BYTES = 64 * 2 ** 20;

/** SQLite's smallest page: smaller files count as empty. */
const LEAST_BYTES = 512;

/** Excess over the size limit while space is freed. */
const RELEASE_BYTES = 4 * 2 ** 20;

/** Unused pages that are worth a wait for the disk: one MiB. */
const MANY_PAGES = 1024;

/** Log size after a checkpoint. */
const LOG_BYTES = 8 * 2 ** 20;

const LOG_PAGES = 8_000;

/**
 * Opens a SQLite file, or creates it with its folder (accessible by its owner only). Two SQLite locks exclude other
 * processes: on POSIX systems the file's own lock is lost if this process opens and closes the file otherwise, but the
 * lock file's isn't.
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

function openLock(path: string): DatabaseSync {
  try {
    // Opening and closing an existing file would lose a lock of this process.
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!existsSync(path)) throw error;
  }
  const lock = new DatabaseSync(path);
  // Locks persist across transactions.
  lock.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE");
  return lock;
}

function markLock(lock: DatabaseSync): void {
  try {
    lock.exec("PRAGMA user_version = 1; COMMIT");
  } catch {
    if (lock.isTransaction) lock.exec("ROLLBACK");
  }
  lock.exec("BEGIN IMMEDIATE");
}

function createFile(file: string, wasThere: boolean): void {
  const held = sizeOf(`${file}-wal`) > 0 ? `${file}-wal has its data` : undefined;
  const size = statSync(file, { throwIfNoEntry: false })?.size;
  // SQLite would treat the file as new and delete its log with all commits.
  if (size === 0 && held) throw corruptError(file, `it is empty, but ${held}`);
  if (size === undefined && held) throw corruptError(file, `it is missing, but ${held}`);
  if (wasThere && !size) throw goneError(file, size === 0 ? "empty" : "missing");
  if (size === undefined) closeSync(openSync(file, "wx", 0o600));
  else if (size > 0 && size < LEAST_BYTES) throw corruptError(file, `it has only ${size} bytes`);
}

/** Copies a damaged log, which the next write would overwrite. Returns the damage as a sentence. */
function keepDamagedLog(file: string, { frame, frames }: LogDamage): string {
  const copy = `${file}-wal.damaged`;
  let text = "";
  try {
    copyFileSync(`${file}-wal`, copy);
    text = ` The log was copied to ${copy}.`;
  } catch {
    // No disk space.
  }
  const place = frame === 0 ? "at its beginning" : `in part ${frame} of ${frames}`;
  return `The log of the store ${file} is damaged ${place}: later writes are lost.${text}`;
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
      `Cannot open the store ${file}: its schema version is ${version}, this program's is ${schema.version}. ` +
        "Use the program that wrote it, or another file.",
    );
  }
  // Effective only before the first table.
  if (version === 0) connection.exec(`PRAGMA page_size = ${PAGE_BYTES}; PRAGMA auto_vacuum = INCREMENTAL`);
  // Commits survive the process at once, and a power failure from the next checkpoint on. FULL would block for
  // milliseconds.
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
    readonly lock?: DatabaseSync;
    readonly reserve?: Reserve;
    readonly damage?: string | undefined;
  },
): Database {
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
  let given = 0;
  let frozen: { isWhole: boolean } | undefined;
  /** Closing it first would lose the file's lock. */
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
      // The next checkpoint truncates the file, but waits for the disk.
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
          `Cannot copy the store ${file}: another copy is in progress. Retry after it.`,
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
        // SQLite deletes the log by name, which may be another file's by now.
        if (isThere()) connection.close();
      } finally {
        if (descriptor !== undefined) closeSync(descriptor);
        lock?.close();
      }
    },
  };
}

/** Windows blocks the name of an open file. */
function isFile(path: string, { dev, ino }: Stats): boolean {
  const there = statSync(path, { throwIfNoEntry: false });
  return there?.ino === ino && there.dev === dev;
}

export function inputValue(value: SqlValue): SQLInputValue {
  if (typeof value === "boolean") return Number(value);
  return Array.isArray(value) ? JSON.stringify(value) : value as SQLInputValue;
}

const CRC_CHARS = 8;

/**
 * Returns a value's JSON after its CRC-32: SQLite doesn't detect changed bytes.
 *
 * @throws {TypeError} if JSON can't represent it.
 */
export function toStoredJson(value: unknown): string {
  const json = jsonText(value);
  return crc32(json).toString(16).padStart(CRC_CHARS, "0") + json;
}

/** Returns the stored value. @throws {StoreError} `corrupt` if the bytes have changed. */
export function fromStoredJson(stored: string, path: string): unknown {
  const json = stored.slice(CRC_CHARS);
  if (crc32(json) === parseInt(stored.slice(0, CRC_CHARS), 16)) return JSON.parse(json);
  throw corruptError(path, "a record is damaged, its checksum doesn't match");
}

const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** Magic number of a log with little-endian checksums; plus one for big-endian ones. */
const LOG_MAGIC = 0x377f0682;

/** Largest checked log; longer ones hold more than one very large write. */
const MAX_LOG_BYTES = 64 * 2 ** 20;

/** Damage of a log at `frame` (from 1) of `frames`; 0 is the header. */
interface LogDamage {
  readonly frame: number;
  readonly frames: number;
}

/**
 * Finds damage that SQLite ignores: it reads a write-ahead log up to the first wrong checksum, as if the rest were of
 * an earlier log. It is damage if a commit of the same log follows.
 * https://www.sqlite.org/fileformat2.html#the_write_ahead_log
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

function checksum(view: DataView, isLittleEndian: boolean) {
  let [first, second] = [0, 0];
  return {
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

interface Reserve {
  give(): void;
  take(): void;
}

const NO_RESERVE: Reserve = { give() {}, take() {} };

const BLOCK_BYTES = 64 * 1024;

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

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Extends the file up to this size or until the disk is full, and returns its size. */
function fill(file: string, bytes: number): number {
  let size = 0;
  try {
    const opened = openSync(file, "a", 0o600);
    try {
      // Not zeros, which compressing file systems don't store.
      const block = crypto.getRandomValues(new Uint8Array(BLOCK_BYTES));
      size = fstatSync(opened).size;
      while (size < bytes) size += writeSync(opened, block.subarray(0, bytes - size));
    } finally {
      closeSync(opened);
    }
  } catch {
    // The disk is full or has a quota: a smaller reserve is harmless until then.
  }
  return size;
}
