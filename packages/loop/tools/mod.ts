/**
 * Built-in tools: files, search, a shell, and recall of elided results.
 *
 * Every tool is a plain {@linkcode Tool} of `@tare/messages`: a definition for the model, and a function that takes
 * arguments valid for it. What the model got wrong, and what the system refused, is an error result that says what
 * to do; a tool throws only when its call is aborted, or on a bug. The file tools stay inside the workspace whatever
 * the path, symbolic links included. `shell` runs with the rights of this process: leave it out, or run the process
 * in a sandbox, where that is too much.
 *
 * README.md shows it in use.
 *
 * @module
 */
export * from "./files/edit_file_tool.ts";
export * from "./files/list_files_tool.ts";
export * from "./files/read_file_tool.ts";
export type { WorkspaceLimits } from "./files/resolve_in_workspace.ts";
export * from "./workspace_tools.ts";
export * from "./search/search_files_tool.ts";
export * from "./shell/shell_tool.ts";
export * from "./files/write_file_tool.ts";
