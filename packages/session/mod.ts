/**
 * State of agent server and gateway.
 *
 * - {@linkcode Store} stores events, state, archived texts, documents and idempotency keys. {@linkcode Store.commit}
 *   writes several records atomically.
 * - `openStore()` of `@tare/session/sqlite` opens one file, `memoryStore()` a store in memory, `openPostgresStore()` of
 *   `@tare/session/postgres` a database for several processes, `openS3Objects()` of `@tare/session/s3` a bucket for
 *   large texts.
 * - {@linkcode copyContents} copies one store into another.
 * - {@linkcode Keys} authenticates requests and enforces permissions, rate limits and budgets.
 * - {@linkcode CacheKeepAlive} sends cache keep-alive requests for idle conversations.
 * - {@linkcode openFileArchive} stores archived texts as plain files.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { Keys } from "@tare/session";
 * import { memoryStore } from "@tare/session/sqlite";
 *
 * const keys = new Keys({ store: memoryStore(), owners: [] });
 * const secret = await keys.add({ name: "alice", routes: ["agent"], budgetUsdPerDay: 5 });
 * assertEquals((await keys.find(secret))?.name, "alice");
 * ```
 *
 * @module
 */
export {
  type Caller,
  type KeyRefusal,
  type KeyReport,
  Keys,
  type KeysOptions,
  type Reservation,
} from "./keys.ts";
export { type ContentsSum, copyContents, type StoreContents } from "./store/contents.ts";
export { openFileArchive } from "./store/file_archive.ts";
export type { Store } from "./store/port.ts";
export { StoreError } from "./store/store_error.ts";
export { CacheKeepAlive, type KeepAliveOptions } from "./cache_keep_alive.ts";
