/**
 * Stores that remember their writes, or fail. Holds no tests.
 *
 * @module
 */
import { memoryStore, type SessionStore, StoreError } from "@tare/store";

/** A store that remembers each of its writes. */
export interface RecordedStore extends SessionStore {
  /** How many writes there were. */
  readonly writes: number;
  /** A store in which only the first so many of these writes have happened, as if the process had ended then. */
  readonly upTo: (writes: number) => Promise<SessionStore>;
}

/** An empty store in memory that remembers each of its writes. */
export function recordedStore(): RecordedStore {
  const store = memoryStore();
  const log: ((store: SessionStore) => unknown)[] = [];
  const wrote = (write: (store: SessionStore) => unknown) => void log.push(write);
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
    createSession(record) {
      store.createSession(record);
      wrote((copy) => copy.createSession(record));
    },
    appendEvents(id, events, options) {
      const last = store.appendEvents(id, events, options);
      const kept = structuredClone({ events, options });
      wrote((copy) => copy.appendEvents(id, kept.events, kept.options));
      return last;
    },
    saveState(id, state) {
      store.saveState(id, state);
      const kept = structuredClone(state);
      wrote((copy) => copy.saveState(id, kept));
    },
    archive(id) {
      const archive = store.archive(id);
      return {
        ...archive,
        async put(content) {
          const ref = await archive.put(content);
          wrote((copy) => copy.archive(id).put(content));
          return ref;
        },
      };
    },
  };
}

/** What a store says that is full. */
export const FULL = "Cannot write to the store: it is full.";

/** A store whose writes of events and state fail when `fails` says so of the call, counted from 1. */
export function failingStore(
  fails: (call: number) => boolean,
): SessionStore & { readonly calls: number; readonly failed: number } {
  const store = memoryStore();
  let calls = 0;
  let failed = 0;
  return {
    ...store,
    get calls() {
      return calls;
    },
    get failed() {
      return failed;
    },
    appendEvents(id, events, options) {
      calls += 1;
      if (!fails(calls)) return store.appendEvents(id, events, options);
      failed += 1;
      throw new StoreError("full", FULL);
    },
  };
}
