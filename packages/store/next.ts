/**
 * The store behind its asynchronous port.
 *
 * @module
 */
export {
  memoryStore,
  type MemoryStoreOptions,
  type MemoryTables,
  memoryTables,
} from "./memory/memory_store.ts";
export * from "./port.ts";
export { openStore, type StoreOptions } from "./sqlite/open_store.ts";
export { StoreError, type StoreErrorCode } from "./store_error.ts";
