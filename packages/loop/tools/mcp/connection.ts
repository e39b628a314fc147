import { systemCode } from "../define_tool.ts";
import { settlesWithin } from "../shell/process_group.ts";
import { asRecord } from "./as_record.ts";
import { httpTransport } from "./http_transport.ts";
import type { McpServerEntry } from "./read_servers.ts";
import { ANY_RESULT, type McpClient, type McpRequestOptions, type McpSdk } from "./sdk.ts";
import { StdioTransport, type StdioTransportOptions } from "./stdio_transport.ts";

/** How a server is reached. */
export interface ConnectOptions extends Omit<StdioTransportOptions, "entry"> {
  readonly sdk: McpSdk;
  /** Called whenever the server says that its tools have changed. */
  readonly onChanged: () => void;
  /** Longest time until it is connected, in milliseconds. */
  readonly timeoutMs: number;
  /** Aborting it gives up. */
  readonly signal: AbortSignal;
}

/** A server may spread its list over so many pages. */
const MAX_PAGES = 64;

/** How long a server may take to hear that it isn't needed any more, in milliseconds. */
const FAREWELL_MS = 500;

/** A connection to one server. */
export class Connection {
  readonly #client: McpClient;
  readonly #lost = Promise.withResolvers<string>();
  #reason: string | undefined;
  #end: () => Promise<void> = () => Promise.resolve();

  private constructor(client: McpClient) {
    this.#client = client;
  }

  /** Starts or reaches a server. @throws {Error} whose message says why that can't be. */
  static async open(entry: McpServerEntry, options: ConnectOptions): Promise<Connection> {
    const { sdk, onChanged, timeoutMs, signal } = options;
    const client = new sdk.Client({ name: "tare", version: "0.1.0" }, { capabilities: {} });
    const connection = new Connection(client);
    let ending = (): string | undefined => undefined;
    let transport: object;
    if (entry.by === "stdio") {
      const program = transport = new StdioTransport({ ...options, entry });
      ending = () => program.ending;
      connection.#end = () => program.close();
    } else {
      const http = transport = httpTransport(entry, { sdk, onBroken: (why) => connection.lose(why) });
      connection.#end = async () => void await settlesWithin(http.terminateSession(), FAREWELL_MS);
    }
    client.onclose = () => connection.lose(ending() ?? "it closed the connection");
    client.setNotificationHandler("notifications/tools/list_changed", onChanged);
    try {
      await client.connect(transport, { timeout: timeoutMs, signal });
      return connection;
    } catch (cause) {
      const why = ending() ?? startFault(entry, cause);
      await connection.close();
      throw new Error(why, { cause });
    }
  }

  /** Resolves once it is gone, with the reason. */
  get lost(): Promise<string> {
    return this.#lost.promise;
  }

  /** Why it is gone; nothing while it is there. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Says that it is gone. */
  lose(why: string): void {
    this.#reason ??= why;
    this.#lost.resolve(why);
  }

  /** Sends a request. @throws the server's error, and what became of the connection. */
  async request(
    method: string,
    params: Record<string, unknown>,
    options: McpRequestOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    return asRecord(await this.#client.request({ method, params }, ANY_RESULT, options)) ?? {};
  }

  /** The tools as the server lists them. */
  async listTools(options: McpRequestOptions): Promise<readonly unknown[]> {
    const all: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = typeof cursor === "string" ? { cursor } : {};
      const { tools, nextCursor } = await this.request("tools/list", params, options);
      if (Array.isArray(tools)) all.push(...tools);
      if (typeof nextCursor !== "string" || nextCursor === cursor) break;
      cursor = nextCursor;
    }
    return all;
  }

  /** Ends it, and the program that it led to. */
  async close(): Promise<void> {
    this.lose("it was closed");
    await this.#end().catch(() => {});
    await this.#client.close().catch(() => {});
  }
}

function startFault(entry: McpServerEntry, error: unknown): string {
  const message = messageOf(error);
  if (entry.by === "http") return `it can't be reached: ${message}`;
  return systemCode(error) === "ENOENT"
    ? `there is no program ${entry.command}, or no folder that it is to start in`
    : `its program doesn't answer: ${message}`;
}

/** What an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
