import { dirname, isAbsolute } from "@std/path";
import { asRecord, joinBytes } from "@tare/wire/internal";
import { SseSplitter } from "@tare/wire/internal/sse";
import { systemCode } from "../define_tool.ts";
import { guardWorkspace } from "../sandbox/guard.ts";
import { type Sandbox, sandboxed, type SandboxStart, unconfined } from "../sandbox/sandbox.ts";
import { settlesWithin } from "../shell/processes.ts";
import { type StartedCommand, startProgram } from "../shell/run_command.ts";
import { Breaks, excessOf, limitNotes } from "./floods.ts";
import type { McpServerEntry } from "./read_servers.ts";

/** Used part of `@modelcontextprotocol/client`, injected so that only users of MCP servers install it. */
export interface McpSdk {
  readonly Client: new (
    info: { readonly name: string; readonly version: string },
    options: { readonly capabilities: Readonly<Record<string, never>> },
  ) => McpClient;
  readonly StreamableHTTPClientTransport: new (url: URL, options: {
    readonly requestInit: { readonly headers: Record<string, string> };
    readonly fetch: (url: string | URL, init?: RequestInit) => Promise<Response>;
  }) => {
    terminateSession(): Promise<void>;
  };
}

/** MCP client. */
export interface McpClient {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  connect(transport: object, options: Omit<McpRequestOptions, "onprogress">): Promise<void>;
  request(
    request: { readonly method: string; readonly params: Record<string, unknown> },
    schema: {
      readonly "~standard": {
        readonly version: 1;
        readonly vendor: string;
        readonly validate: (value: unknown) => { readonly value: unknown };
      };
    },
    options: McpRequestOptions,
  ): Promise<unknown>;
  close(): Promise<void>;
}

/** Options of a request. */
export interface McpRequestOptions {
  /** In milliseconds. */
  readonly timeout: number;
  /** Aborting it cancels the request at the server too. */
  readonly signal: AbortSignal;
  readonly onprogress?: (progress: {
    readonly progress: number;
    readonly total?: number | undefined;
    readonly message?: string | undefined;
  }) => void;
}

const ANY_RESULT: Parameters<McpClient["request"]>[1] = {
  "~standard": { version: 1, vendor: "tare", validate: (value) => ({ value }) },
};

interface ConnectOptions extends Omit<StdioTransportOptions, "entry"> {
  readonly sdk: McpSdk;
  readonly onChanged: () => void;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const MAX_PAGES = 64;

const FAREWELL_MS = 500;

export class McpConnection {
  readonly #client: McpClient;
  readonly #lost = Promise.withResolvers<string>();
  #reason: string | undefined;
  #end: () => Promise<void> = () => Promise.resolve();

  private constructor(client: McpClient) {
    this.#client = client;
  }

  static async open(entry: McpServerEntry, options: ConnectOptions): Promise<McpConnection> {
    const { sdk, onChanged, timeoutMs, signal } = options;
    const client = new sdk.Client({ name: "tare", version: "0.1.0" }, { capabilities: {} });
    const connection = new McpConnection(client);
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
    limitNotes(transport, onChanged);
    client.onclose = () => connection.lose(ending() ?? "it closed the connection");
    try {
      await client.connect(transport, { timeout: timeoutMs, signal });
      return connection;
    } catch (cause) {
      const why = ending() ?? startFault(entry, cause);
      await connection.close();
      throw new Error(why, { cause });
    }
  }

  /** Resolves once the connection is lost, with the reason. */
  get lost(): Promise<string> {
    return this.#lost.promise;
  }

  get reason(): string | undefined {
    return this.#reason;
  }

  lose(why: string): void {
    this.#reason ??= why;
    this.#lost.resolve(why);
  }

  /** @throws the server's error, or the reason of the loss. */
  async request(
    method: string,
    params: Record<string, unknown>,
    options: McpRequestOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    return asRecord(await this.#client.request({ method, params }, ANY_RESULT, options)) ?? {};
  }

  async *listTools(options: McpRequestOptions): AsyncGenerator<readonly unknown[]> {
    let cursor: unknown;
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = typeof cursor === "string" ? { cursor } : {};
      const { tools, nextCursor } = await this.request("tools/list", params, options);
      if (Array.isArray(tools)) yield tools;
      if (typeof nextCursor !== "string" || nextCursor === cursor) break;
      cursor = nextCursor;
    }
  }

  async close(): Promise<void> {
    this.lose("it was closed");
    await this.#end().catch(() => {});
    await this.#client.close().catch(() => {});
  }
}

function startFault(entry: McpServerEntry, error: unknown): string {
  const message = errorText(error);
  if (entry.by === "http") return `it can't be reached: ${message}`;
  return systemCode(error) === "ENOENT"
    ? `the program ${entry.command} or its working directory is missing`
    : `its program doesn't answer: ${message}`;
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

interface StdioTransportOptions {
  readonly entry: Extract<McpServerEntry, { readonly by: "stdio" }>;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly owner: string;
  /** Sandbox, unless the entry excludes the program. Default: none. */
  readonly sandbox?: Sandbox | undefined;
}

const CLOSE_MS = 500;

const TAIL_BYTES = 500;

const EDGE_BYTES = 256;

/**
 * JSON-RPC over the standard streams of a program, one message per line. An oversized message fails its call
 * only.
 */
class StdioTransport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: ((message: unknown) => void) | undefined;
  readonly #options: StdioTransportOptions;
  readonly #breaks = new Breaks();
  #started: Promise<void> = Promise.resolve();
  #program: StartedCommand | undefined;
  #ended: Promise<void> = Promise.resolve();
  #ending: string | undefined;
  #leave: () => void = () => {};
  #closed: Promise<void> | undefined;
  #stderr: Uint8Array<ArrayBuffer> = new Uint8Array();
  readonly #open = new Set<number>();
  #pieces: Uint8Array<ArrayBuffer>[] = [];
  #bytes = 0;

  constructor(options: StdioTransportOptions) {
    this.#options = options;
  }

  /** Reason why the program ended, with its last error output; `undefined` while it runs. */
  get ending(): string | undefined {
    return this.#ending;
  }

  start(): Promise<void> {
    return this.#started = this.#start();
  }

  async #start(): Promise<void> {
    const { entry, cwd, env, owner, sandbox } = this.#options;
    const start = sandbox ? this.#sandboxed(sandbox) : unconfined([entry.command, ...entry.args]);
    const program = this.#program = await startProgram({ ...start, env: {} }, {
      cwd: start.endsWhole ? cwd : entry.cwd ?? cwd,
      ...{ env: { ...env, ...start.env, ...entry.env }, owner, hasInput: true },
      onOutput: (chunk) => this.#read(chunk),
      onAside: (chunk) => {
        this.#stderr = joinBytes([this.#stderr, chunk.subarray(-TAIL_BYTES)]).slice(-TAIL_BYTES);
      },
    });
    this.#ended = program.exited.then(async ({ code, signal }) => {
      this.#leave();
      await program.end();
      const output = new TextDecoder().decode(this.#stderr).trim();
      const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
      this.#ending = `it ended with ${how}${output === "" ? "" : `; its last output: ${output}`}`;
      this.onclose?.();
    });
  }

  #sandboxed(sandbox: Sandbox): SandboxStart {
    const { entry: { command, args, cwd, folders = [], isOutside = false }, cwd: usual } = this.#options;
    const reads = [...(cwd === undefined ? [] : [cwd]), ...(isAbsolute(command) ? [dirname(command)] : [])];
    // The server runs for long: new paths may be the user's.
    const guard = isOutside ? undefined : guardWorkspace(sandbox, { isSearched: false });
    if (guard) this.#leave = () => void guard.end();
    return sandboxed(sandbox, {
      ...{ command: [command, ...args], cwd: cwd ?? usual, folders, reads, isOutside },
      ...(guard && { fixed: guard.fixed }),
    });
  }

  async send(message: unknown): Promise<void> {
    const { id, method } = asRecord(message) ?? {};
    if (typeof id === "number" && method !== undefined) this.#open.add(id);
    const stdin = this.#program?.stdin;
    if (!stdin?.writable) throw new Error("its input is closed");
    await new Promise<void>((resolve) => stdin.write(`${JSON.stringify(message)}\n`, () => resolve()));
  }

  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.#started.catch(() => {});
    this.#program?.stdin?.end();
    if (!await settlesWithin(this.#ended, CLOSE_MS)) await this.#program?.end();
    await this.#ended;
  }

  /** Handles messages before it reads more: backpressure for a program that floods. */
  async #read(chunk: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#breaks.resume();
    let from = 0;
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      this.#take(chunk.subarray(from, at));
      this.#line();
      from = at + 1;
      await this.#breaks.due();
    }
    this.#take(chunk.subarray(from));
    await this.#breaks.due();
  }

  #take(piece: Uint8Array<ArrayBuffer>): void {
    this.#bytes += piece.length;
    if (piece.length > 0) this.#pieces.push(piece);
    if (this.#bytes <= MAX_MESSAGE_BYTES) return;
    const text = joinBytes(this.#pieces);
    this.#pieces = [text.slice(0, EDGE_BYTES), text.slice(-EDGE_BYTES)];
  }

  #line(): void {
    const [isTooLarge, bytes] = [this.#bytes > MAX_MESSAGE_BYTES, joinBytes(this.#pieces)];
    this.#pieces = [];
    this.#bytes = 0;
    if (bytes[0] !== OPENING_BRACE) return;
    const text = new TextDecoder().decode(bytes);
    if (isTooLarge) return this.#refuse(text, TOO_LARGE);
    const excess = excessOf(bytes);
    if (excess !== undefined) {
      return this.#refuse(
        text.slice(0, EDGE_BYTES) + text.slice(-EDGE_BYTES),
        `its response can't be parsed: ${excess}`,
      );
    }
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    const { id, method } = asRecord(message) ?? {};
    if (method === undefined && !(typeof id === "number" && this.#open.delete(id))) return;
    this.onmessage?.(message);
  }

  #refuse(edges: string, why: string): void {
    const named = Array.from(edges.matchAll(/"id"\s*:\s*(\d+)/g), ([, id]) => Number(id));
    const meant = named.filter((id) => this.#open.has(id));
    for (const id of meant.length > 0 ? meant : [...this.#open]) {
      this.#open.delete(id);
      this.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32000, message: why } });
    }
  }
}

const LINE_FEED = 10;
const OPENING_BRACE = 123;

/**
 * Returns JSON-RPC over streamable HTTP. `onBroken` receives the reason why a response was interrupted or too
 * large.
 */
function httpTransport(
  { url, headers }: Extract<McpServerEntry, { readonly by: "http" }>,
  { sdk, onBroken }: { readonly sdk: McpSdk; readonly onBroken: (why: string) => void },
): InstanceType<McpSdk["StreamableHTTPClientTransport"]> {
  return new sdk.StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (!response.body) return response;
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
      const body = limited(response.body, isStream, (error) => {
        // A canceled call closes its response; unsolicited messages have their own connection.
        if (init?.signal?.aborted) return;
        if (error instanceof RangeError) onBroken(error.message);
        else if (init?.method === "POST") onBroken(`its response was interrupted (${error})`);
      });
      const { status, statusText, headers } = response;
      return new Response(body, { status, statusText, headers });
    },
  });
}

const PIECE_BYTES = 8_192;
const LINES_PER_MS = 50;

function limited(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  isStream: boolean,
  onBroken: (error: unknown) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  const checked = (isStream ? events : whole)(read(reader));
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await checked.next();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        onBroken(error);
        controller.error(error);
        await reader.cancel().catch(() => {});
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

async function* read(
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  for (let { done, value } = await reader.read(); !done && value; { done, value } = await reader.read()) {
    yield value;
  }
}

async function* whole(
  body: AsyncIterable<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const piece of body) {
    pieces.push(piece);
    if ((length += piece.length) > MAX_MESSAGE_BYTES) throw new RangeError(TOO_LARGE);
  }
  const bytes = joinBytes(pieces);
  const excess = excessOf(bytes);
  if (excess !== undefined) throw new RangeError(`its response can't be parsed: ${excess}`);
  yield bytes;
}

async function* events(
  body: AsyncIterable<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<Uint8Array<ArrayBuffer>, undefined> {
  const splitter = new SseSplitter({ maxEventBytes: MAX_MESSAGE_BYTES, maxStreamBytes: Infinity });
  const encoder = new TextEncoder();
  for await (const chunk of body) {
    for (let start = 0; start < chunk.length; start += PIECE_BYTES) {
      const piece = chunk.subarray(start, start + PIECE_BYTES);
      for (const { data = "" } of splitter.events(piece)) {
        const excess = excessOf(encoder.encode(data));
        if (excess !== undefined) throw new RangeError(`its response can't be parsed: ${excess}`);
      }
      if (splitter.excess !== undefined) throw new RangeError(TOO_LARGE);
      const lines = piece.reduce((count, byte) => byte === LINE_FEED ? count + 1 : count, 0);
      if (lines > LINES_PER_MS) await new Promise((resolve) => setTimeout(resolve, lines / LINES_PER_MS));
      yield piece;
    }
  }
}

const MAX_MESSAGE_BYTES: number = 16 * 2 ** 20;

const TOO_LARGE: string = `its response is larger than ${
  MAX_MESSAGE_BYTES / 2 ** 20
} MiB: request less per call`;
