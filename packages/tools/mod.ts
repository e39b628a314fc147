/**
 * Built-in tools: files, search, a shell, and recall of elided results.
 *
 * Every tool is a plain {@linkcode Tool} of `@tare/messages`: a definition for the model, and a function that takes
 * arguments valid for it. What the model got wrong, and what the system refused, is an error result that says what
 * to do; a tool throws only when its call is aborted, or on a bug. The file tools stay inside the workspace whatever
 * the path, symbolic links included. `shell` runs with the rights of this process: leave it out, or run the process
 * in a sandbox, where that is too much.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { workspaceTools } from "@tare/tools";
 *
 * const workspace = await Deno.makeTempDir();
 * const tools = new Map(workspaceTools({ workspace }).map((tool) => [tool.definition.function.name, tool]));
 * const context = { signal: new AbortController().signal, progress() {} };
 *
 * await tools.get("write_file")?.run({ path: "notes/a.txt", content: "one\ntwo\nthree\n" }, context);
 * assertEquals(
 *   await tools.get("read_file")?.run({ path: "notes/a.txt", start_line: 2 }, context),
 *   "lines 2-3 of 3\ntwo\nthree",
 * );
 * assertEquals(
 *   await tools.get("search_files")?.run({ pattern: "^t", path: "notes" }, context),
 *   "matching lines: 2; files with matches: 1; files searched: 1\nnotes/a.txt:2: two\nnotes/a.txt:3: three",
 * );
 * await Deno.remove(workspace, { recursive: true });
 * ```
 *
 * @module
 */
export * from "./files/edit_file_tool.ts";
export * from "./files/list_files_tool.ts";
export * from "./files/read_file_tool.ts";
export * from "./workspace_tools.ts";
export * from "./search/search_files_tool.ts";
export * from "./shell/shell_tool.ts";
export * from "./files/write_file_tool.ts";
