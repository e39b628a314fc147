/**
 * Tool that searches the files of a folder.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm, writeFile } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { assertEquals } from "@std/assert";
 * import { searchFilesTool } from "@tare/tools/search";
 *
 * const folder = await mkdtemp(join(tmpdir(), "workspace-"));
 * await writeFile(join(folder, "a.txt"), "one\ntwo\nthree\n");
 * const context = { signal: new AbortController().signal, progress() {} };
 * assertEquals(
 *   await searchFilesTool(folder).run({ pattern: "^t" }, context),
 *   "matching lines: 2; files with matches: 1; files searched: 1\na.txt:2: two\na.txt:3: three",
 * );
 * await rm(folder, { recursive: true });
 * ```
 *
 * @module
 */
export { searchFilesTool } from "./search_files_tool.ts";
