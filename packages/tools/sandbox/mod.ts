/**
 * Sandbox that limits the access of commands and MCP servers: bubblewrap on Linux, seatbelt on macOS.
 *
 * @example
 * ```ts
 * import { spawnSync } from "node:child_process";
 * import { findSandbox } from "@tare/tools/sandbox";
 * import { shellTool } from "@tare/tools/shell";
 *
 * const workspace = "/srv/project";
 * const sandbox = await findSandbox({
 *   workspace,
 *   home: "/home/me",
 *   async tryOut(program, args) {
 *     const { status, stderr } = spawnSync(program, args, { env: {} });
 *     return status === 0 ? undefined : String(stderr);
 *   },
 * });
 * const shell = shellTool({ workspace, sandbox: "why" in sandbox ? undefined : sandbox });
 * ```
 *
 * @module
 */
export { findSandbox, type NoSandbox, type Sandbox, type SandboxOptions } from "./sandbox.ts";
