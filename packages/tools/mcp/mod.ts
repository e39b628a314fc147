/**
 * Tools of MCP servers: local programs over standard input and output, and remote servers over streamable
 * HTTP. The caller injects `@modelcontextprotocol/client`, which implements the protocol.
 *
 * @example
 * ```ts ignore
 * import { mcpServers, readMcpServers } from "@tare/tools/mcp";
 *
 * const servers = mcpServers(readMcpServers(await readFile("mcp.json", "utf8"), process.cwd()), {
 *   sdk: () => import("@modelcontextprotocol/client"),
 *   cwd: process.cwd(),
 * });
 * servers.start();
 * const { tools, warnings } = await servers.take(servers.names);
 * ```
 *
 * @module
 */
import type { Tool } from "@tare/messages";
import { settlesWithin } from "../shell/processes.ts";
import { type McpOptions, McpServer } from "./mcp_server.ts";
import type { McpServerEntry } from "./read_servers.ts";

export type { McpClient, McpRequestOptions, McpSdk } from "./connection.ts";
export type { McpOptions } from "./mcp_server.ts";
export { type McpServerEntry, readMcpServers } from "./read_servers.ts";

const WAIT_MS = 30_000;

const STAGGER_MS = 2_000;

/** MCP servers of one configuration. */
export interface McpServerSet {
  /** Names of the servers. Their tools' names begin with `name__`. */
  readonly names: readonly string[];
  /**
   * Returns the current tools of these servers. Waits for servers that start for the first time, at most 30
   * seconds. Ignores unknown names.
   */
  take(names: readonly string[], signal?: AbortSignal): Promise<{
    readonly tools: readonly Tool[];
    /** Reason for each unavailable server, one sentence each. */
    readonly warnings: readonly string[];
  }>;
  /** Returns the known tools of these servers without waiting. */
  known(names: readonly string[]): readonly Tool[];
  /**
   * Starts the servers one after the other; `take()` starts its servers at once. Ended servers are restarted.
   */
  start(): void;
  close(): Promise<void>;
}

/**
 * Returns the servers of these entries, not started.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { mcpServers } from "@tare/tools/mcp";
 *
 * // With servers: sdk: () => import("@modelcontextprotocol/client")
 * const servers = mcpServers([], { cwd: "/", sdk: () => Promise.reject(new Error("never called")) });
 * assertEquals(await servers.take([]), { tools: [], warnings: [] });
 * await servers.close();
 * ```
 */
export function mcpServers(entries: readonly McpServerEntry[], options: McpOptions): McpServerSet {
  const servers = new Map(entries.map((entry) => [entry.name, new McpServer(entry, options)]));
  const these = (names: readonly string[]) => names.flatMap((name) => servers.get(name) ?? []);
  const known = (names: readonly string[]) => these(names).flatMap(({ tools }) => tools);
  let isClosed = false;
  let starting: Promise<void> | undefined;
  let taking: Promise<unknown> = Promise.resolve();
  const startAll = async () => {
    for (const server of servers.values()) {
      await taking;
      if (isClosed) return;
      server.start();
      await settlesWithin(server.started, STAGGER_MS);
    }
  };
  return {
    names: [...servers.keys()],
    known,
    async take(names, signal) {
      const requested = these(names);
      if (starting && !isClosed) { for (const server of requested) server.start(); }
      taking = settlesWithin(Promise.all(requested.map((server) => server.started)), WAIT_MS, signal);
      await taking;
      return {
        tools: known(names),
        warnings: requested.flatMap((server) => server.problem ?? []),
      };
    },
    start() {
      starting ??= startAll();
    },
    async close() {
      isClosed = true;
      await Promise.all(Array.from(servers.values(), (server) => server.close()));
      await starting;
    },
  };
}
