/**
 * Stores that record their writes, or fail. Contains no tests.
 *
 * @module
 */
import { type Store, StoreError } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";

/** A store that records its writes. */
export interface RecordedStore extends Store {
  readonly writes: number;
  /** Returns a store after the first `writes` writes, as if the process had ended then. */
  readonly upTo: (writes: number) => Promise<Store>;
}

/** Returns an empty store in memory that records its writes. */
export function recordedStore(): RecordedStore {
  const store = memoryStore();
  const log: ((store: Store) => Promise<unknown>)[] = [];
  return {
    ...store,
    get writes() {
      return log.length;
    },
    async upTo(writes) {
      const copy = memoryStore();
      for (const write of log.slice(0, writes)) await write(copy);
      return copy;
    },
    async commit(records) {
      const written = structuredClone(records);
      await store.commit(records);
      log.push((copy) => copy.commit(written));
    },
    archive(id) {
      const archive = store.archive(id);
      return {
        ...archive,
        async put(content) {
          const ref = await archive.put(content);
          log.push((copy) => copy.archive(id).put(content));
          return ref;
        },
      };
    },
  };
}

/** Returns a store that calls back before each commit. */
export function watchedStore(see: (records: readonly StoreRecord[]) => Promise<void> | void): Store {
  const store = memoryStore();
  return {
    ...store,
    async commit(records) {
      await see(records);
      await store.commit(records);
    },
  };
}

/** Error message of a full store. */
export const FULL = "Cannot write to the store: it is full.";

/**
 * Returns a store whose commits for existing sessions fail if `fails` returns true for the commit, counted from 1.
 */
export function failingStore(fails: (call: number) => boolean): Store & { readonly calls: number } {
  let calls = 0;
  const store = watchedStore((records) => {
    if (records.some(({ type }) => type === "session")) return;
    calls += 1;
    if (fails(calls)) throw new StoreError("full", FULL);
  });
  return {
    ...store,
    get calls() {
      return calls;
    },
  };
}
