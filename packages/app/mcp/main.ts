/**
 * The agent server's process with MCP servers. Their client is installed only here, by this folder's `deno.json` and
 * lock file.
 *
 * @module
 */
import { runServer } from "../run_server.ts";

await runServer({ mcpSdk: () => import("@modelcontextprotocol/client") });
