/**
 * The sandbox that limits what commands and MCP servers can reach.
 *
 * @module
 */
export { findSandbox, type Sandbox } from "./sandbox.ts";
