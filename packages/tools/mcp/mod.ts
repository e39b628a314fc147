/**
 * Tools of MCP servers: programs of this machine, over their standard input and output, and servers at an address, by
 * streamable HTTP. The protocol is implemented by `@modelcontextprotocol/client`, which the caller injects.
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

/** Longest wait for the tools of servers that start, in milliseconds. */
const WAIT_MS = 30_000;

/** Longest time until the next server is started, in milliseconds: each start takes a processor for a while. */
const STAGGER_MS = 2_000;

/** MCP servers of one configuration. */
export interface McpServerSet {
  /** Their names. The names of a server's tools begin with `name__`. */
  readonly names: readonly string[];
  /**
   * Returns the current tools of these servers. Waits for servers that start for the first time, at most 30 seconds.
   * Unknown names are ignored.
   */
  take(names: readonly string[], signal?: AbortSignal): Promise<{
    readonly tools: readonly Tool[];
    /** The reason for each server that is unavailable, a sentence each. */
    readonly warnings: readonly string[];
  }>;
  /** Returns the tools of these servers that are known without waiting. */
  known(names: readonly string[]): readonly Tool[];
  /**
   * Starts the servers, one after the other; `take()` starts its servers at once. Each server that ends is started again.
   */
  start(): void;
  /** Ends all servers. */
  close(): Promise<void>;
}

/**
 * Returns the servers of these entries. None runs before it is started.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { mcpServers } from "@tare/tools/mcp";
 *
 * // With servers: sdk: () => import("@modelcontextprotocol/client")
 * const servers = mcpServers([], { cwd: "/", sdk: () => Promise.reject(new Error("never asked")) });
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
      const asked = these(names);
      if (starting && !isClosed) { for (const server of asked) server.start(); }
      taking = settlesWithin(Promise.all(asked.map((server) => server.started)), WAIT_MS, signal);
      await taking;
      return {
        tools: known(names),
        warnings: asked.flatMap((server) => server.problem ?? []),
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
