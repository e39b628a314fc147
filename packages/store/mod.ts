/**
 * Where sessions are kept: events, state, archived texts, documents and idempotency keys, behind one port.
 *
 * - {@linkcode Store} is the port. One {@linkcode Store.commit} writes several {@linkcode StoreRecord}s, all or none.
 * - {@linkcode openStore} keeps everything in one SQLite file. It has no dependencies beside the SQLite that Deno,
 *   Node and Bun bring, and needs to read and write the file's folder.
 * - {@linkcode memoryStore} keeps everything in memory, for tests and trials.
 * - {@linkcode copyContents} copies all that one store holds into another, of another kind too.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * README.md shows it in use.
 *
 * @module
 */
export * from "./contents.ts";
export type * from "./conversation_store.ts";
export * from "./file_archive.ts";
export { memoryStore, type MemoryStoreOptions } from "./memory/memory_store.ts";
export type * from "./port.ts";
export type * from "./shared_store.ts";
export { openFileContents } from "./sqlite/contents.ts";
export { openStore, type StoreOptions } from "./sqlite/open_store.ts";
export { StoreError, type StoreErrorCode } from "./store_error.ts";
