/**
 * Where sessions are kept: events, state, archived texts, documents and idempotency keys, behind one port.
 *
 * - {@linkcode Store} is the port. One {@linkcode Store.commit} writes several {@linkcode StoreRecord}s, all or none.
 * - {@linkcode openStore} keeps everything in one SQLite file. It has no dependencies beside the SQLite that Deno
 *   brings, and needs to read and write the file's folder.
 * - {@linkcode memoryStore} keeps everything in memory, for tests and trials.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * @example A session that is there again after a restart
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { archiveRef } from "@tare/prune";
 * import { openStore } from "@tare/store";
 *
 * const folder = await Deno.makeTempDir();
 * const content = "a long result";
 * const ref = await archiveRef(content);
 *
 * const before = await openStore(`${folder}/tare.db`);
 * await before.commit([
 *   { type: "session", id: "s1", createdAtMs: 0, settings: {} },
 *   { type: "events", sessionId: "s1", after: 0, events: [{ type: "turn_start" }, { type: "turn_end" }] },
 *   { type: "state", sessionId: "s1", name: "totals", value: { turns: 1 } },
 *   { type: "archive", sessionId: "s1", ref, content },
 * ]);
 * await before.close();
 *
 * const after = await openStore(`${folder}/tare.db`);
 * assertEquals(await after.readEvents("s1", { after: 1 }), [{ number: 2, event: { type: "turn_end" } }]);
 * assertEquals(await after.listSessions(), [
 *   { id: "s1", createdAtMs: 0, settings: {}, lastEvent: 2, totals: { turns: 1 } },
 * ]);
 * assertEquals(await after.archive("s1").get(ref), content);
 * await after.close();
 * await Deno.remove(folder, { recursive: true });
 * ```
 *
 * @example Archived texts in files
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { openFileArchive } from "@tare/store";
 *
 * const directory = await Deno.makeTempDir();
 * const archive = await openFileArchive(directory);
 * const ref = await archive.put("a long result");
 *
 * const later = await openFileArchive(directory);
 * assertEquals(await later.get(ref), "a long result");
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @module
 */
export * from "./file_archive.ts";
export { memoryStore, type MemoryStoreOptions } from "./memory/memory_store.ts";
export type * from "./port.ts";
export { openStore, type StoreOptions } from "./sqlite/open_store.ts";
export { StoreError, type StoreErrorCode } from "./store_error.ts";
