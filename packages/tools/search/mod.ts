/**
 * The tool that searches the files of a folder.
 *
 * @module
 */
export type { WorkspaceLimits } from "../files/resolve_in_workspace.ts";
export { searchFilesTool } from "./search_files_tool.ts";
