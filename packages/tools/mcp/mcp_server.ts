import { Buffer } from "node:buffer";
import type { Tool, ToolContext, ToolDefinition, ToolOutput } from "@tare/messages";
import { imageHead } from "@tare/messages/internal";
import { schemaChecker } from "@tare/loop/internal";
import { createHash } from "node:crypto";
import { asRecord } from "@tare/wire/internal";
import { isDeepStrictEqual } from "node:util";
import { Breaks } from "./floods.ts";
import { errorText, McpConnection, type McpRequestOptions, type McpSdk } from "./connection.ts";
import type { McpServerEntry } from "./read_servers.ts";
import { describeImage, isImageAccepted, MAX_IMAGE_BYTES } from "../image.ts";
import { sliceText } from "../result_text.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { settlesWithin } from "../shell/processes.ts";

/** Options of `mcpServers()`. */
export interface McpOptions {
  /** Loads `@modelcontextprotocol/client` when a server starts. */
  readonly sdk: () => Promise<McpSdk>;
  readonly cwd: string;
  /** Environment of every program; its entry overrides it. Default: empty. */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Name in the environment of the processes, by which a later process finds them after a crash. Default:
   * none.
   */
  readonly owner?: string;
  /** Sandbox of programs unless their entry excludes them. Default: none. */
  readonly sandbox?: Sandbox | undefined;
  /** Time limit from a start to the list of tools, in milliseconds. Default: 60,000. */
  readonly startTimeoutMs?: number;
  /** Delay of the first restart, in milliseconds; doubled each further time. Default: 1,000. */
  readonly restartMs?: number;
  /** Time limit of a ping after a call timed out, in milliseconds. Default: 30,000. */
  readonly aliveMs?: number;
  /** Called with warnings for the user, one sentence each. Default: ignored. */
  readonly onWarning?: (sentence: string) => void;
}

const MAX_RESTART_MS = 60_000;

const STEADY_MS = 60_000;

/**
 * Minimum interval of listings, in milliseconds; doubled up to five seconds while the list keeps changing.
 */
const LIST_EVERY_MS = 200;
const MAX_LIST_EVERY_MS = 5_000;

const MAX_TOLD = 100;

const MAX_NOTE_CHARS = 1_000;

const NO_LIMIT_MS = 2 ** 31 - 1;

/** Server that is restarted when it ends. Meanwhile its tools return an error. */
export class McpServer {
  readonly #entry: McpServerEntry;
  readonly #options: McpOptions;
  readonly #closing = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #work: Promise<void> | undefined;
  #connection: McpConnection | undefined;
  #problem: string | undefined = "is still starting";
  #tools: ReadonlyMap<string, Tool> = new Map();
  #known: ReadonlyMap<string, Tool | string> = new Map();
  #listing: Promise<void> | undefined;
  #isStale = false;
  #relisted: PromiseWithResolvers<void> | undefined;
  readonly #reportedFaults = new Set<string>();

  constructor(entry: McpServerEntry, options: McpOptions) {
    this.#entry = entry;
    this.#options = options;
  }

  start(): void {
    this.#work ??= this.#run();
  }

  /** Resolves once the tools are listed, also after a change notification, or the start has failed. */
  get started(): Promise<void> {
    return this.#relisted?.promise ?? this.#started.promise;
  }

  get tools(): readonly Tool[] {
    return [...this.#tools.values()];
  }

  /** Reason why it is unavailable, as a sentence; `undefined` if it is available. */
  get problem(): string | undefined {
    return this.#problem && `MCP server ${this.#entry.name} ${this.#problem}.`;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#started.resolve();
    await this.#work;
    await this.#listing;
  }

  async #run(): Promise<void> {
    const { restartMs = 1_000 } = this.#options;
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted;) {
      const startedAt = performance.now();
      const why = await this.#live(signal);
      if (signal.aborted) break;
      failures = performance.now() - startedAt > STEADY_MS ? 1 : failures + 1;
      const delayMs = Math.min(restartMs * 2 ** (failures - 1), MAX_RESTART_MS);
      this.#problem = `is unavailable, because ${why}; it restarts within ${Math.ceil(delayMs / 1000)} s`;
      // Warnings become rarer for a server that never starts.
      if ((failures & (failures - 1)) === 0) this.#options.onWarning?.(this.problem!);
      this.#started.resolve();
      await pause(delayMs, signal);
    }
    this.#problem = "has been closed";
    this.#started.resolve();
  }

  async #live(signal: AbortSignal): Promise<string> {
    const { sdk, cwd, env = {}, owner = "", sandbox, startTimeoutMs = 60_000 } = this.#options;
    let connection: McpConnection | undefined;
    let listed: Promise<void> | undefined;
    const onAbort = () => connection?.lose("it was closed");
    signal.addEventListener("abort", onAbort);
    try {
      connection = await McpConnection.open(this.#entry, {
        ...{ sdk: await sdk(), cwd, env, owner, sandbox, signal },
        timeoutMs: startTimeoutMs,
        onChanged: () => this.#changed(),
      });
      listed = this.#list(connection);
      const ended = await Promise.race([connection.lost, listed]);
      if (ended !== undefined) return ended;
      this.#connection = connection;
      this.#problem = undefined;
      this.#started.resolve();
      if (this.#isStale) this.#changed();
      return await connection.lost;
    } catch (error) {
      return errorText(error);
    } finally {
      this.#connection = undefined;
      this.#problem ??= "was lost just now";
      this.#releaseWaiting();
      signal.removeEventListener("abort", onAbort);
      await connection?.close();
      await listed?.catch(() => {});
    }
  }

  #changed(): void {
    this.#isStale = true;
    this.#relisted ??= Promise.withResolvers();
    const connection = this.#connection;
    if (!connection || this.#listing) return;
    const look = async () => {
      for (let everyMs = LIST_EVERY_MS; this.#isStale && this.#connection === connection;) {
        await this.#list(connection);
        await pause(everyMs, this.#closing.signal);
        everyMs = Math.min(2 * everyMs, MAX_LIST_EVERY_MS);
      }
    };
    this.#listing = look()
      .catch((error) =>
        this.#warn(`Cannot list the tools of MCP server ${this.#entry.name}: ${errorText(error)}`)
      )
      .finally(() => {
        this.#listing = undefined;
        // The list may have changed since, or belong to another server by now.
        if (this.#isStale && this.#connection) this.#changed();
        else this.#releaseWaiting();
      });
  }

  async #list(connection: McpConnection): Promise<void> {
    const { startTimeoutMs = 60_000 } = this.#options;
    this.#isStale = false;
    const pages = connection.listTools({ timeout: startTimeoutMs, signal: this.#closing.signal });
    const { tools, faults, known } = await this.#readOffer(pages);
    for (const fault of faults) this.#warn(fault);
    this.#known = known;
    this.#tools = tools;
    this.#releaseWaiting();
  }

  #releaseWaiting(): void {
    this.#relisted?.resolve();
    this.#relisted = undefined;
  }

  #warn(sentence: string): void {
    if (this.#reportedFaults.has(sentence) || this.#reportedFaults.size >= MAX_TOLD) return;
    this.#reportedFaults.add(sentence);
    this.#options.onWarning?.(sentence);
  }

  /**
   * Reads the list of tools. Names get the server's prefix, `server__tool`; invalid characters become `_`,
   * and a hash replaces the end of a long name. Duplicate names and invalid definitions are skipped. Tools
   * with a trusted read-only hint may be repeated; others count as `once`.
   */
  async #readOffer(pages: AsyncIterable<readonly unknown[]>): Promise<Offer> {
    const server = this.#entry.name;
    const known = new Map<string, Tool | string>();
    const tools = new Map<string, Tool>();
    const ownNames = new Map<string, string>();
    const faults: string[] = [];
    const breaks = new Breaks();
    let [count, chars] = [0, 0];
    const enough = (what: string) =>
      faults.push(`Cannot use all tools of MCP server ${server}: ${what} are taken.`);
    pages: for await (const page of pages) {
      breaks.resume();
      for (const one of page) {
        await breaks.due();
        const text = JSON.stringify(one) ?? "";
        if (++count > MAX_TOOLS) {
          enough(`it has more than ${MAX_TOOLS}, and the first ${MAX_TOOLS}`);
          break pages;
        }
        if ((chars += text.length) > MAX_OFFER_CHARS) {
          enough(
            `their definitions have more than ${MAX_OFFER_CHARS} characters together, and the first ${
              count - 1
            }`,
          );
          break pages;
        }
        const read = known.get(text) ?? this.#known.get(text) ?? this.#read(one);
        known.set(text, read);
        if (typeof read === "string") {
          faults.push(read);
          continue;
        }
        const { name } = read.definition.function;
        const ownName = String(asRecord(one)?.name);
        const other = ownNames.get(name);
        if (other === undefined) {
          ownNames.set(name, ownName);
          tools.set(name, read);
          continue;
        }
        const why = `its name becomes ${name}, and so does that of ${quote(other)}`;
        faults.push(`Cannot use tool ${quote(ownName)} of MCP server ${server}: ${why}.`);
      }
    }
    const sorted = [...tools].sort(([a], [b]) => a < b ? -1 : 1);
    return { tools: new Map(sorted), faults, known };
  }

  #read(listed: unknown): Tool | string {
    const read = readTool(this.#entry, listed);
    return typeof read === "string" ? read : this.#toolOf(read);
  }

  #toolOf({ ownName, definition, stance, hints }: OfferedTool): Tool {
    const { timeoutMs } = this.#entry;
    const tool: Tool = {
      definition,
      ...(stance && { stance }),
      ...(hints && { hints }),
      mayDefer: true,
      ...(timeoutMs !== undefined && { timeoutMs }),
      run: (args, context) => this.#call({ tool, ownName, args, context }),
    };
    return tool;
  }

  async #call(
    { tool, ownName, args, context }: {
      readonly tool: Tool;
      readonly ownName: string;
      readonly args: Readonly<Record<string, unknown>>;
      readonly context: ToolContext;
    },
  ): Promise<ToolOutput> {
    const { signal } = context;
    signal.throwIfAborted();
    const { name } = tool.definition.function;
    const { name: server, by } = this.#entry;
    const refuse = (why: string) => ({ content: `Cannot run ${name}: ${why}`, error: true });
    const connection = this.#connection;
    if (!connection) return refuse(`${this.problem} Continue without it, or call again later.`);
    if (!this.#tools.has(name)) {
      return refuse(`MCP server ${server} no longer has it. The next turn has its current tools.`);
    }
    const onprogress: McpRequestOptions["onprogress"] = ({ progress, total, message }) => {
      context.progress();
      const so = total === undefined ? `${progress}` : `${progress} of ${total}`;
      context.output?.(`${message === undefined ? so : `${so}: ${message.slice(0, MAX_NOTE_CHARS)}`}\n`);
    };
    try {
      const call = { name: ownName, arguments: args };
      const options = { timeout: NO_LIMIT_MS, signal, onprogress };
      return callResult(await connection.request("tools/call", call, options), context);
    } catch (error) {
      if (signal.aborted) {
        this.#probe(connection);
        throw signal.reason;
      }
      // Errors of the server have a numeric code; others are the connection's.
      const isAnswer = typeof (error as { readonly code?: unknown }).code === "number";
      if (isAnswer && connection.reason === undefined) {
        return refuse(`MCP server ${server}: ${errorText(error)}`);
      }
      if (by === "http") connection.lose(errorText(error));
      const advice = tool.stance === "rederivable"
        ? "It only reads: call it again later if you need it."
        : "It may have taken effect: find out before you call it again.";
      const content =
        `Cannot return the result of ${name}: MCP server ${server} was lost during the call, because ${
          connection.reason ?? errorText(error)
        }. ${advice}`;
      return { content, error: true };
    }
  }

  #probe(connection: McpConnection): void {
    const { aliveMs = 30_000 } = this.#options;
    connection.request("ping", {}, { timeout: aliveMs, signal: this.#closing.signal })
      .catch(() => connection.lose("it no longer answers"));
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await settlesWithin(new Promise(() => {}), ms, signal);
}

const MAX_NAME = 64;

/** Maximum size of a definition, in characters of JSON: it is in every prompt. */
const MAX_DEFINITION_CHARS = 65_536;

const MAX_TOOLS = 1_000;

const MAX_OFFER_CHARS = 4 * 2 ** 20;

interface Offer {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly faults: readonly string[];
  readonly known: ReadonlyMap<string, Tool | string>;
}

interface OfferedTool extends Pick<Tool, "definition" | "stance" | "hints"> {
  readonly ownName: string;
}

function readTool(
  { name: server, trustHints = false }: McpServerEntry,
  listed: unknown,
): OfferedTool | string {
  const { name: ownName, description, title, inputSchema, annotations } = asRecord(listed) ?? {};
  const hints = asRecord(annotations);
  const refuse = (what: string) => `Cannot use tool ${quote(ownName)} of MCP server ${server}: ${what}.`;
  if (typeof ownName !== "string" || ownName === "") return refuse("its name must be a text");
  const schema = asRecord(inputSchema);
  if (!schema) return refuse("its inputSchema must be an object");
  if (schema.type !== undefined && schema.type !== "object") {
    return refuse(`the type of its inputSchema must be object, but it is ${quote(schema.type)}`);
  }
  const label = [description, title, hints?.title].find((text) => typeof text === "string" && text !== "");
  const definition: ToolDefinition = {
    type: "function",
    function: {
      name: toolName(server, ownName),
      ...(label !== undefined && { description: String(label).replaceAll("\0", "").toWellFormed() }),
      parameters: { ...schema, type: "object" },
    },
  };
  const { length } = JSON.stringify(definition);
  if (length > MAX_DEFINITION_CHARS) {
    return refuse(`its definition has ${length} characters; the limit is ${MAX_DEFINITION_CHARS}`);
  }
  try {
    schemaChecker(schema);
  } catch (error) {
    return refuse(`its inputSchema is no JSON Schema: ${(error as Error).message}`);
  }
  const isReading = trustHints && hints?.readOnlyHint === true;
  return { ownName, definition, stance: isReading ? "rederivable" : "once", ...(hints && { hints }) };
}

function toolName(server: string, own: string): string {
  const name = `${server}__${own.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`;
  if (name.length <= MAX_NAME) return name;
  const hash = createHash("sha256").update(own).digest("hex").slice(0, 8);
  return `${name.slice(0, MAX_NAME - hash.length - 1)}_${hash}`;
}

function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? "without a name";
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

const MAX_CHARS = 2 ** 20;

const MAX_IMAGES = 20;

/**
 * Returns a call's result for the model: text and, if accepted, images. One line describes each other part,
 * and omitted text. Structured content that equals the text is omitted.
 */
function callResult(result: unknown, context: Pick<ToolContext, "supportsImages">): ToolOutput {
  const { content, structuredContent, isError } = asRecord(result) ?? {};
  const images = new ImageBlocks(context);
  const blocks = Array.isArray(content)
    ? content.map((block) => describe(asRecord(block) ?? {}, images))
    : [];
  if (structuredContent !== undefined && !repeats(content, structuredContent)) {
    blocks.push(`[structured content]\n${JSON.stringify(structuredContent, withoutBinary)}`);
  }
  if (blocks.length === 0) blocks.push("[empty result]");
  const text = clean(cut(blocks.join("\n")));
  const { urls } = images;
  if (isError !== true && urls.length === 0) return text;
  return { content: text, error: isError === true, ...(urls.length > 0 && { images: urls }) };
}

class ImageBlocks {
  readonly urls: string[] = [];
  readonly #areSeen: boolean;
  #bytes = 0;

  constructor({ supportsImages = false }: Pick<ToolContext, "supportsImages">) {
    this.#areSeen = supportsImages;
  }

  describe(base64: unknown, mimeType: unknown): string {
    const what = `[image, ${sizeOf(base64, mimeType)}: omitted, because`;
    if (!this.#areSeen || typeof base64 !== "string") return `${what} ${TEXT_ALONE}]`;
    const bytes = Buffer.from(base64, "base64");
    const head = imageHead(bytes);
    if (!head) return `${what} it is no PNG, JPEG, GIF or WebP]`;
    if (!isImageAccepted(head, bytes.length)) {
      return `${what} providers take no ${describeImage(head, bytes.length)}]`;
    }
    if (this.urls.length === MAX_IMAGES || this.#bytes + bytes.length > MAX_IMAGE_BYTES) {
      return `${what} a result has at most ${MAX_IMAGES} images and ${MAX_IMAGE_BYTES} bytes of them]`;
    }
    this.#bytes += bytes.length;
    this.urls.push(`data:${head.type};base64,${bytes.toString("base64")}`);
    return `[image ${this.urls.length}: ${describeImage(head, bytes.length)}]`;
  }
}

const TEXT_ALONE = "a tool result is text only";

function describe(block: Readonly<Record<string, unknown>>, images: ImageBlocks): string {
  const { type, text, data, resource, uri, name, title, description, mimeType, size } = block;
  switch (type) {
    case "text":
      return typeof text === "string" ? text : "[invalid text]";
    case "image":
      return images.describe(data, mimeType);
    case "audio":
      return `[${type}, ${sizeOf(data, mimeType)}: omitted, because ${TEXT_ALONE}]`;
    case "resource_link": {
      const about = [
        title ?? name,
        mimeType,
        typeof size === "number" ? `${size} bytes` : undefined,
        description,
      ];
      return `[link to resource ${uri}: ${about.filter((part) => part !== undefined).join(", ")}]`;
    }
    case "resource": {
      const { uri, text, blob, mimeType } = asRecord(resource) ?? {};
      if (typeof text === "string") return `[resource ${uri}]\n${text}`;
      if (typeof mimeType === "string" && mimeType.startsWith("image/")) {
        return `[resource ${uri}]\n${images.describe(blob, mimeType)}`;
      }
      return `[resource ${uri}, ${sizeOf(blob, mimeType)}: omitted, because ${TEXT_ALONE}]`;
    }
    default:
      return `[${
        typeof type === "string" ? type : "content without a type"
      }: omitted, because its type is unknown]`;
  }
}

function sizeOf(base64: unknown, mimeType: unknown): string {
  const bytes = typeof base64 === "string" ? Math.floor(base64.replace(/=+$/, "").length * 3 / 4) : 0;
  return `${typeof mimeType === "string" ? mimeType : "of no type"}, ${bytes.toLocaleString("en")} bytes`;
}

const MAX_BASE64 = 1_000;

/** Replaces binary content in structured content by a description. */
function withoutBinary(_: string, value: unknown): unknown {
  if (typeof value !== "string" || value.length <= MAX_BASE64) return value;
  const base64 = /^(?:data:[^,]{0,100};base64,)?([A-Za-z0-9+/_-]+={0,2})$/.exec(value)?.[1];
  return base64 === undefined
    ? value
    : `[binary, ${sizeOf(base64, undefined)}: omitted, because ${TEXT_ALONE}]`;
}

function repeats(content: unknown, structured: unknown): boolean {
  if (!Array.isArray(content)) return false;
  const values = Object.values(asRecord(structured) ?? {});
  let chars = 0;
  return content.some((block) => {
    const { text } = asRecord(block) ?? {};
    if (typeof text !== "string") return false;
    if (values.length === 1 && values[0] === text) return true;
    if ((chars += text.length) > MAX_CHARS) return false;
    try {
      return isDeepStrictEqual(JSON.parse(text), structured);
    } catch {
      return false;
    }
  });
}

/** Removes NUL and lone surrogates, which providers reject. */
function clean(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

function cut(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  const left = text.length - MAX_CHARS;
  const head = sliceText(text, 0, MAX_CHARS / 2);
  const tail = sliceText(text, text.length - MAX_CHARS / 2, text.length);
  return `${head}\n[… ${left.toLocaleString("en")} characters omitted: a result has at most ${
    MAX_CHARS.toLocaleString("en")
  } …]\n${tail}`;
}
