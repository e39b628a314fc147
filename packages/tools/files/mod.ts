/**
 * The tools that list, read, write and edit files of a folder.
 *
 * @module
 */
export { listFilesTool } from "./list_files_tool.ts";
export { readFileTool } from "./read_file_tool.ts";
export type { WorkspaceLimits } from "./resolve_in_workspace.ts";
export { editFileTool, writeFileTool } from "./write_file_tools.ts";
