import type { Tool, ToolContext, ToolOutput } from "@tare/messages";
import { callResult } from "./call_result.ts";
import { Connection, messageOf } from "./connection.ts";
import { type OfferedTool, readOffer } from "./offered_tool.ts";
import type { McpServerEntry } from "./read_servers.ts";
import type { McpProgress, McpSdk } from "./sdk.ts";

/** What servers are run with. */
export interface McpOptions {
  /** Loads `@modelcontextprotocol/client`; called when a server starts. */
  readonly sdk: () => Promise<McpSdk>;
  /** Folder that programs start in whose entry names none. */
  readonly cwd: string;
  /** What every program's environment has, beneath what its entry names. Default: nothing. */
  readonly env?: Readonly<Record<string, string>>;
  /** Marks the processes, so that `endLeftCommands()` finds them after a crash. Default: a mark of no owner. */
  readonly owner?: string;
  /** Longest time until a server that starts has named its tools, in milliseconds. Default: 60,000. */
  readonly startTimeoutMs?: number;
  /** How long a server that ended stays so, in milliseconds; twice as long after each further time. Default: 1,000. */
  readonly restartMs?: number;
  /** How long a server that let a call run out may take to say that it is alive, in milliseconds. Default: 30,000. */
  readonly aliveMs?: number;
  /** Told what people should know of the servers, a sentence at a time. Default: nobody is. */
  readonly onWarning?: (sentence: string) => void;
}

/** Longest time that a server that ends again and again stays so, in milliseconds. */
const MAX_RESTART_MS = 60_000;

/** Of one that has run so long earlier ends don't count any more, in milliseconds. */
const STEADY_MS = 60_000;

/** Shortest time between two looks at a list that changes, in milliseconds. */
const LIST_EVERY_MS = 200;

/** The time limit of requests that have one elsewhere: the longest delay of a timer. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/** One server: started, asked, started again when it has ended. Meanwhile its tools stay known, and say so. */
export class McpServer {
  readonly #entry: McpServerEntry;
  readonly #options: McpOptions;
  readonly #closing = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #work: Promise<void> | undefined;
  #connection: Connection | undefined;
  #problem: string | undefined = "is still starting";
  #tools: ReadonlyMap<string, Tool> = new Map();
  /** By what the server said of them: of what hasn't changed the tool stays the same. */
  #known: ReadonlyMap<string, Tool> = new Map();
  #listing: Promise<void> | undefined;
  #isStale = false;
  readonly #told = new Set<string>();

  /** It doesn't run yet. */
  constructor(entry: McpServerEntry, options: McpOptions) {
    this.#entry = entry;
    this.#options = options;
  }

  /** Starts it, if it isn't. */
  start(): void {
    this.#work ??= this.#run();
  }

  /** Resolves once the server has named its tools, or has failed to. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  /** Its tools as it named them last. */
  get tools(): readonly Tool[] {
    return [...this.#tools.values()];
  }

  /** Why it can't be asked now, as a sentence; nothing if it can. */
  get problem(): string | undefined {
    return this.#problem && `MCP server ${this.#entry.name} ${this.#problem}.`;
  }

  /** Ends it. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#started.resolve();
    await this.#work;
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
      this.#problem = `isn't there, because ${why}; it is started again within ${
        Math.ceil(delayMs / 1000)
      } s`;
      // Of one that never comes up people are told less and less often.
      if ((failures & (failures - 1)) === 0) this.#options.onWarning?.(this.problem!);
      this.#started.resolve();
      await pause(delayMs, signal);
    }
    this.#problem = "has been closed";
    this.#started.resolve();
  }

  /** Connects and stays so as long as it lasts. Gives the reason why it has ended; never rejects. */
  async #live(signal: AbortSignal): Promise<string> {
    const { sdk, cwd, env = {}, owner = "", startTimeoutMs = 60_000 } = this.#options;
    let connection: Connection | undefined;
    const onAbort = () => connection?.lose("it was closed");
    signal.addEventListener("abort", onAbort);
    try {
      connection = await Connection.open(this.#entry, {
        ...{ sdk: await sdk(), cwd, env, owner, signal },
        timeoutMs: startTimeoutMs,
        onChanged: () => this.#changed(),
      });
      const listed = this.#list(connection).then(() => undefined);
      const ended = await Promise.race([connection.lost, listed]);
      if (ended !== undefined) return ended;
      this.#connection = connection;
      this.#problem = undefined;
      this.#started.resolve();
      // What it said while it was listed.
      if (this.#isStale) this.#changed();
      return await connection.lost;
    } catch (error) {
      return messageOf(error);
    } finally {
      this.#connection = undefined;
      signal.removeEventListener("abort", onAbort);
      await connection?.close();
    }
  }

  /** Looks at the list again, however often the server says that it has changed. */
  #changed(): void {
    this.#isStale = true;
    const connection = this.#connection;
    if (!connection || this.#listing) return;
    const look = async () => {
      while (this.#isStale && this.#connection === connection) {
        await this.#list(connection);
        await pause(LIST_EVERY_MS, this.#closing.signal);
      }
    };
    this.#listing = look()
      .catch((error) =>
        this.#warn(`Cannot list the tools of MCP server ${this.#entry.name}: ${messageOf(error)}`)
      )
      .finally(() => this.#listing = undefined);
  }

  async #list(connection: Connection): Promise<void> {
    const { startTimeoutMs = 60_000 } = this.#options;
    this.#isStale = false;
    const listed = await connection.listTools({ timeout: startTimeoutMs, signal: this.#closing.signal });
    const { tools, faults } = readOffer(this.#entry.name, listed);
    for (const fault of faults) this.#warn(fault);
    const known = new Map(tools.map((offered) => {
      const said = JSON.stringify(offered);
      return [said, this.#known.get(said) ?? this.#toolOf(offered)];
    }));
    this.#known = known;
    this.#tools = new Map(Array.from(known.values(), (tool) => [tool.definition.function.name, tool]));
  }

  /** Says each sentence once. */
  #warn(sentence: string): void {
    if (this.#told.has(sentence)) return;
    this.#told.add(sentence);
    this.#options.onWarning?.(sentence);
  }

  #toolOf({ ownName, definition, stance }: OfferedTool): Tool {
    const { timeoutMs } = this.#entry;
    const tool: Tool = {
      definition,
      ...(stance && { stance }),
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
    if (!connection) return refuse(`${this.problem} Go on without it, or call again later.`);
    if (!this.#tools.has(name)) {
      return refuse(`MCP server ${server} no longer has it. What it has now is shown from the next turn on.`);
    }
    const onprogress = ({ progress, total, message }: McpProgress) => {
      context.progress();
      const so = total === undefined ? `${progress}` : `${progress} of ${total}`;
      context.output?.(`${message === undefined ? so : `${so}: ${message}`}\n`);
    };
    try {
      const call = { name: ownName, arguments: args };
      const options = { timeout: NO_LIMIT_MS, signal, onprogress };
      return callResult(await connection.request("tools/call", call, options));
    } catch (error) {
      if (signal.aborted) {
        this.#probe(connection);
        throw signal.reason;
      }
      // What the server itself answers has a number; all else befell the connection.
      const isAnswer = typeof (error as { readonly code?: unknown }).code === "number";
      if (isAnswer && connection.reason === undefined) {
        return refuse(`MCP server ${server} says: ${messageOf(error)}`);
      }
      if (by === "http") connection.lose(messageOf(error));
      const advice = tool.stance === "rederivable"
        ? "It only reads: call it again later if you need it."
        : "It may have taken effect: find out before you call it again.";
      const content =
        `Cannot tell the result of ${name}: MCP server ${server} was lost during the call, because ${
          connection.reason ?? messageOf(error)
        }. ${advice}`;
      return { content, error: true };
    }
  }

  /** Whether a server still answers that let a call run out: one that doesn't is started again. */
  #probe(connection: Connection): void {
    const { aliveMs = 30_000 } = this.#options;
    connection.request("ping", {}, { timeout: aliveMs, signal: this.#closing.signal })
      .catch(() => connection.lose("it no longer answers"));
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const stop = () => resolve();
  signal.addEventListener("abort", stop);
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
}
