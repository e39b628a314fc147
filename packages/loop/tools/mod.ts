/**
 * Built-in tools: files, search, a shell, and recall of elided results.
 *
 * Every tool is a plain {@linkcode Tool} of `@tare/messages`: a definition for the model, and a function that takes
 * arguments valid for it. What the model got wrong, and what the system refused, is an error result that says what
 * to do; a tool throws only when its call is aborted, or on a bug. The file tools stay inside the workspace whatever
 * the path, symbolic links included. `shell` runs with the rights of this process: take it out of the list, or run the
 * process in a sandbox, where that is too much.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { endLeftCommands, type ShellToolOptions } from "./shell/shell_tool.ts";
export { recallTool, workspaceTools } from "./workspace_tools.ts";
