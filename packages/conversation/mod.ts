/**
 * What agent server and gateway share around a conversation.
 *
 * - {@linkcode Conversation} is one, whoever's loop leads it: what its model sees, what was asked for of single
 *   messages, and what its calls came to.
 * - {@linkcode Store} is where conversations are kept: events, state, archived texts, documents and idempotency keys.
 *   One {@linkcode Store.commit} writes several {@linkcode StoreRecord}s, all or none.
 * - `openStore()` of `@tare/conversation/sqlite` keeps everything in one file, `memoryStore()` in memory, for tests and
 *   trials, `openPostgresStore()` of `@tare/conversation/postgres` in a database that several processes have open, with
 *   large texts in a bucket by `openS3Objects()` of `@tare/conversation/s3`.
 * - {@linkcode JsonPacker} packs a value that grows, so that each version of it takes what is new in it.
 * - {@linkcode copyContents} copies all that one store holds into another, of another kind too.
 * - {@linkcode DocumentReader} reads the documents of a kind, without those that are damaged.
 * - {@linkcode Coalescer} runs work once more for all who requested it while it ran.
 * - {@linkcode Keys} says who asks, what they may, and what they have spent.
 * - {@linkcode Warmth} keeps the prefixes of idle conversations warm, as far as somebody has consented to pay for it.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { Coalescer } from "./coalescer.ts";
export { Conversation, type ConversationState } from "./conversation.ts";
export { type ContentsItem, copyContents, type StoreContents, sumContents } from "./store/contents.ts";
export { DocumentReader } from "./documents.ts";
export { type Asker, type KeyReport, Keys, type Reservation } from "./keys.ts";
export { openFileArchive } from "./store/file_archive.ts";
export { JsonPacker } from "./store/packed_json.ts";
export type {
  Hold,
  HolderRequest,
  ListedSession,
  SessionRecord,
  SharedStore,
  Sighting,
  Store,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredSums,
  StoreRecord,
} from "./store/port.ts";
export { isConflict, StoreError } from "./store/store_error.ts";
export { type Pingable, Warmth } from "./warmth.ts";
