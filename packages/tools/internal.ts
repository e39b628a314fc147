/**
 * Internal API for Tare's packages, without stability guarantees.
 *
 * @module
 */
export { openAt, pathAfterLinks } from "./files/resolve_in_workspace.ts";
export { clearWorkspaces, isProtected } from "./sandbox/guard.ts";
export { endLeftCommands } from "./shell/shell_tool.ts";
