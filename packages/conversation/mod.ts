/**
 * What agent server and gateway share around a conversation.
 *
 * - {@linkcode Conversation} is one, whoever's loop leads it: what its model sees, what was asked for of single
 *   messages, and what its calls came to.
 * - {@linkcode Store} is where conversations are kept: events, state, archived texts, documents and idempotency keys.
 *   One {@linkcode Store.commit} writes several {@linkcode StoreRecord}s, all or none.
 * - `openStore()` of `@tare/conversation/sqlite` keeps everything in one file, `openPostgresStore()` of
 *   `@tare/conversation/postgres` in a database that several processes have open.
 * - {@linkcode memoryStore} keeps everything in memory, for tests and trials.
 * - {@linkcode copyContents} copies all that one store holds into another, of another kind too.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * README.md shows it in use.
 *
 * @module
 */
export {
  Conversation,
  type ConversationOptions,
  type ConversationState,
  type DatedRewrite,
  pinsAfter,
  type Prompts,
} from "./conversation.ts";
export { type ContentsItem, type ContentsSum, copyContents, type StoreContents, sumContents } from "./store/contents.ts";
export { openFileArchive } from "./store/file_archive.ts";
export { memoryStore, type MemoryStoreOptions } from "./store/memory/memory_store.ts";
export { type SharedMemory, sharedMemory, type SharedOpening } from "./store/memory/shared_memory.ts";
export type { Claim, IdempotencyKey, ListedSession, NamedSession, SessionKind, SessionLimits, SessionRecord, StorableEvent, Store, StoreCopy, StoredDocument, StoredEvent, StoreRecord } from "./store/port.ts";
export type { BriefHold, Hold, Holder, HolderRequest, Holding, SharedListener, SharedStore } from "./store/shared_store.ts";
export { StoreError, type StoreErrorCode } from "./store/store_error.ts";
