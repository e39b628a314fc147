/**
 * Where sessions are kept.
 *
 * - {@linkcode openStore} keeps whole sessions in one SQLite file: events, state, archived texts, idempotency keys.
 *   It has no dependencies beside the SQLite that Deno brings, and needs to read and write the file's folder.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * @example A session that is there again after a restart
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { openStore } from "@tare/store";
 *
 * const folder = await Deno.makeTempDir();
 * const before = openStore(`${folder}/tare.db`);
 * before.createSession({ id: "s1", createdAtMs: 0, settings: {} });
 * before.appendEvents("s1", [{ type: "turn_start" }, { type: "turn_end" }], { state: { turns: 1 } });
 * const ref = await before.archive("s1").put("a long result");
 * before.close();
 *
 * const after = openStore(`${folder}/tare.db`);
 * assertEquals(after.readEvents("s1", { after: 1 }), [{ number: 2, event: { type: "turn_end" } }]);
 * assertEquals(after.readState("s1", "turns"), 1);
 * assertEquals(await after.archive("s1").get(ref), "a long result");
 * after.close();
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
export { memoryStore, openStore } from "./open_store.ts";
export type * from "./session_store.ts";
export { StoreError, type StoreErrorCode } from "./store_error.ts";
