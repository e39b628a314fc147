import type { StoreRecord } from "../port.ts";
import type { ObjectStore } from "../s3_objects.ts";
import { StoreError } from "../store_error.ts";
import { archivedText, type StoredText } from "./records.ts";

/**
 * Compressed bytes of the smallest text that goes into an object store. To put one takes 10 to 50 ms, which the request
 * waits for that relies on it, and costs what a gigabyte of a database's disk costs for 50 kB in a month, or for 5 kB in a
 * year.
 */
const MIN_BYTES = 16 * 1024;

/** Objects that are written, read or removed at a time. */
const AT_ONCE = 16;

/** Objects of texts that are gone, removed with one statement. */
const SLICE = 500;

/** For so long nothing is tried with an object store that has failed. */
const REST_MS = 30_000;

/** What {@linkcode largeTexts} needs of the store. */
interface Owner {
  readonly objects: ObjectStore;
  readonly query: <Row>(
    sql: string,
    values?: readonly (string | readonly string[] | number)[],
  ) => Promise<Row[]>;
  readonly warn: (line: string) => void;
}

/** Large texts of a database's archive, which stand in an object store. */
export interface LargeTexts {
  /**
   * Puts the large texts of these records there, and gives what their rows hold. What can't be put stays in the database:
   * a request waits for an object store for some seconds at most, and no commit fails because of it.
   */
  put(records: readonly StoreRecord[]): Promise<ReadonlyMap<string, StoredText>>;
  /** Removes objects that no text has any more, and those of commits that never came. */
  sweep(): Promise<void>;
  /** Ends what it does by itself. */
  close(): Promise<void>;
}

/**
 * An object's name is written down before it is put, and struck out by the commit whose text it is. So one that a crash
 * left is known without listing a bucket, and goes an hour later: a commit that comes still later finds its name gone, and
 * begins anew. Each has a name of its own: one that is being removed is never that of a text which comes again.
 */
export function largeTexts({ objects, query, warn }: Owner): LargeTexts {
  let restsUntilMs = 0;
  let isWarned = false;
  let isOpen = true;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let sweeping: Promise<void> = Promise.resolve();
  const rests = () => performance.now() < restsUntilMs;
  /** Whether it could be done. Else the object store is left alone for a while. */
  const attempt = async (act: () => Promise<unknown>): Promise<boolean> => {
    if (rests()) return false;
    try {
      await act();
      isWarned = false;
      return true;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      restsUntilMs = performance.now() + REST_MS;
      if (!isWarned) warn(`${error.message} Until it can be used texts are kept in the database.`);
      isWarned = true;
      return false;
    }
  };
  const sweepAll = async () => {
    while (isOpen) {
      const names = (await query<{ name: string }>("SELECT tare.left_objects($1) AS name", [SLICE]))
        .map(({ name }) => name);
      if (names.length === 0) return;
      if (!await attempt(() => fewAtOnce(names, (name) => objects.delete(name)))) {
        clearTimeout(retry);
        // Who reads the database hears of it by itself if that fails.
        if (isOpen) retry = setTimeout(() => void sweep().catch(() => {}), 2 * REST_MS);
        return;
      }
      await query("DELETE FROM tare.objects WHERE name = ANY ($1)", [names]);
    }
  };
  /** One after the other: two would remove the same. */
  const sweep = () => sweeping = sweeping.catch(() => {}).then(sweepAll);
  return {
    async put(records) {
      const compressed = new Map<string, ReturnType<typeof archivedText>>();
      for (const record of records) {
        if (record.type !== "archive" || record.content.length < MIN_BYTES) continue;
        if (!compressed.has(record.ref)) compressed.set(record.ref, archivedText(record.content));
      }
      const texts = new Map<string, StoredText>(compressed);
      const large = Array.from(compressed).filter(([, { bytes }]) => bytes >= MIN_BYTES);
      if (large.length === 0 || rests()) return texts;
      const names = large.map(([ref]) => `${ref}-${crypto.randomUUID()}`);
      const rows = await query<{ name: string | null }>("SELECT tare.name_objects($1, $2) AS name", [
        large.map(([ref]) => ref),
        names,
      ]);
      const named = new Set(rows.map(({ name }) => name));
      await fewAtOnce([...large.entries()], async ([at, [ref, text]]) => {
        const object = names[at]!;
        const { zstd, ...stored } = text;
        // A text that a session has is there for all.
        if (!named.has(object)) texts.set(ref, stored);
        else if (await attempt(() => objects.put(object, zstd))) texts.set(ref, { ...stored, object });
      });
      return texts;
    },
    sweep,
    async close() {
      isOpen = false;
      clearTimeout(retry);
      await sweeping.catch(() => {});
    },
  };
}

/** Does something with each, with some at a time, until one fails. */
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
