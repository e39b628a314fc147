/**
 * The agent server's process where MCP servers are configured. What only that needs is installed by this folder's own
 * `deno.json` and lock file, so that nobody else does.
 *
 * @module
 */
import { runServer } from "../run_server.ts";

await runServer({ mcpSdk: () => import("@modelcontextprotocol/client") });
