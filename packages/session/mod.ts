/**
 * What agent server and gateway store, and what they are handed for it.
 *
 * - {@linkcode Store} is where conversations are kept: events, state, archived texts, documents and idempotency keys.
 *   One {@linkcode Store.commit} writes several records, all or none.
 * - `openStore()` of `@tare/session/sqlite` keeps everything in one file, `memoryStore()` in memory, for tests and
 *   trials, `openPostgresStore()` of `@tare/session/postgres` in a database that several processes have open, with
 *   large texts in a bucket by `openS3Objects()` of `@tare/session/s3`.
 * - {@linkcode copyContents} copies all that one store holds into another, of another kind too.
 * - {@linkcode Keys} says who asks, what they may, and what they have spent.
 * - {@linkcode Warmth} keeps the prefixes of idle conversations warm, as far as somebody has consented to pay for it.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
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
  type Asker,
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
export { Warmth, type WarmthOptions } from "./warmth.ts";
