/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { pinOf } from "./event.ts";
export { SentRequests } from "./run.ts";
export { openAt, pathAfterLinks } from "./tools/files/resolve_in_workspace.ts";
export { isProtected } from "./tools/sandbox/protected_paths.ts";
export { endLeftCommands } from "./tools/shell/shell_tool.ts";
export { systemClock } from "./watchdog.ts";
export { clearWorkspaces } from "./tools/sandbox/guard.ts";
