import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { inMemory } from "./like_memory_fixture_test.ts";
import { holding, type SharedPlace } from "./openings_fixture_test.ts";
import { testSharedStore } from "./shared_suite_fixture_test.ts";
import { type OpenStore, type Place, testStore } from "./store_suite_fixture_test.ts";

/** A store in memory ends with its process: tests end where another process would open it. */
const oneProcess: Place = (test) => {
  const ended = Promise.withResolvers<void>();
  let isOpen = false;
  const open: OpenStore = (options) => {
    if (!isOpen) {
      isOpen = true;
      return Promise.resolve(memoryStore(options));
    }
    ended.resolve();
    return ended.promise.then(() => new Promise<never>(() => {}));
  };
  return Promise.race([test(open), ended.promise]);
};

testStore("memoryStore()", oneProcess);
testStore("plain maps", inMemory);

const LEASE_MS = 10_000;

const place: SharedPlace = async (test) => {
  const memory = sharedMemory({ leaseMs: LEASE_MS });
  const openings = new Map<Store, ReturnType<ReturnType<typeof sharedMemory>["open"]>>();
  await test({
    open() {
      const opening = memory.open();
      openings.set(opening.store, opening);
      return Promise.resolve(opening.store);
    },
    stop(store) {
      openings.get(store)?.pause();
      memory.pass(LEASE_MS);
      return Promise.resolve();
    },
    goOn: (store) => openings.get(store)?.wake(),
  });
  await Promise.all([...openings.values()].map(({ store, wake }) => {
    wake();
    return store.close();
  }));
};

testSharedStore("sharedMemory()", place);
testStore("sharedMemory(), alone", (test) => {
  const memory = sharedMemory();
  return test((options) => {
    const store = holding(memory.open(options).store);
    const listSessions: Store["listSessions"] = async (which) =>
      (await store.listSessions(which)).map(({ isHeld: _isHeld, ...listed }) => listed);
    return Promise.resolve({ ...store, listSessions });
  });
});
