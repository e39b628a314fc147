/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { openAt, pathAfterLinks } from "./files/resolve_in_workspace.ts";
export { clearWorkspaces } from "./sandbox/guard.ts";
export { isProtected } from "./sandbox/protected_paths.ts";
export { endLeftCommands } from "./shell/shell_tool.ts";
