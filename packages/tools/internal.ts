/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { openAt, pathAfterLinks } from "./files/resolve_in_workspace.ts";
export { clearWorkspaces, isProtected } from "./sandbox/guard.ts";
export { endLeftCommands } from "./shell/shell_tool.ts";
