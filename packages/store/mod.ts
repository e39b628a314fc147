/**
 * Where sessions are kept. So far: the archive of elided texts, in files.
 *
 * @example
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
