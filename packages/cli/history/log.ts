import type { Content, Message, Usage } from "@tare/messages";
import type { RecordedUsage } from "@tare/simulator/economy";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";

/** A model call that an agent wrote down, and what its provider reported of it. */
export interface LoggedCall {
  /** When it was asked for, as far as the log tells. */
  readonly atMs: number;
  readonly model: string;
  readonly usage: Usage;
  /** Tells it from all others of this agent: logs of sessions that go on from another one repeat its calls. */
  readonly id: string;
}

/** A message of a log, with what recordings note of one. */
export type LoggedMessage = Message & {
  readonly ts?: number;
  readonly usage?: RecordedUsage;
  readonly error?: true;
};

/** A session as its agent wrote it down: one growing prompt. Helpers of a session are sessions of their own. */
export interface LoggedSession {
  readonly id: string;
  /** The session that it belongs to, itself or its parent. */
  readonly group: string;
  /** The folder that it worked in. */
  readonly project: string;
  /** All of its calls that took tokens, those in what was taken back included, in their order. */
  readonly calls: readonly LoggedCall[];
  /** What was said, as its newest prompt holds it, and before where it was compacted. Empty unless it was asked for. */
  readonly messages: readonly LoggedMessage[];
  /** Positions in front of which the agent replaced what came before by a summary. */
  readonly compacted: readonly number[];
}

/** What is told to a reader of logs, and what it tells. */
export interface ReadOptions {
  /** Whether messages are wanted: without, nothing but numbers is held in memory. */
  readonly messages: boolean;
  /** The session that is wanted, where a file holds many. Default: all are. */
  readonly only?: string;
  /** Told of each line, and whether its shape is one that can be read. */
  readonly line: (isKnown: boolean) => void;
}

/** Where programs keep what is theirs. */
export interface Places {
  readonly home: string;
  /** What an environment variable holds. */
  readonly env: (name: string) => string | undefined;
}

/** What is known of one agent's logs. */
export interface LogFormat {
  readonly agent: string;
  /** Files of this agent that hold sessions. */
  readonly find: (places: Places) => Iterable<string>;
  /** The sessions of a file. */
  readonly read: (path: string, options: ReadOptions) => Iterable<LoggedSession>;
}

/** Longest line that is read, in UTF-16 code units. */
const MAX_LINE = 64 * 1024 * 1024;

/** The lines of a file, a piece of it in memory at a time. One that is too long is given as an empty text. */
export function* linesOf(path: string): Generator<string> {
  using file = Deno.openSync(path);
  const decoder = new TextDecoder();
  const piece = new Uint8Array(256 * 1024);
  let rest = "";
  let isTooLong = false;
  for (let read = file.readSync(piece); read !== null; read = file.readSync(piece)) {
    const lines = (rest + decoder.decode(piece.subarray(0, read), { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      yield isTooLong ? "" : line;
      isTooLong = false;
    }
    if (rest.length > MAX_LINE) [rest, isTooLong] = ["", true];
  }
  if (rest !== "" || isTooLong) yield isTooLong ? "" : rest;
}

/** The lines of a file that are JSON objects. Told of are those that `take` can't read, too. */
export function readLines(
  path: string,
  { line: told }: ReadOptions,
  take: (value: JsonRecord) => boolean,
): void {
  for (const line of linesOf(path)) told(takeLine(line, take));
}

function takeLine(line: string, take: (value: JsonRecord) => boolean): boolean {
  try {
    const value = asRecord(JSON.parse(line));
    return value !== undefined && take(value);
  } catch {
    // Cut off, damaged, or of a shape that nobody here knows: it is counted.
    return false;
  }
}

/** Files of a folder and of those in it whose path ends so, in their order; none if it isn't there or may not be read. */
export function* filesIn(folder: string, ending: string): Generator<string> {
  let entries: Deno.DirEntry[];
  try {
    entries = [...Deno.readDirSync(folder)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return;
    throw error;
  }
  for (const { name, isDirectory } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* filesIn(path, ending);
    else if (name.endsWith(ending)) yield path;
  }
}

/** A time as a log writes it, in milliseconds: a date, or a number of them. */
export function timeOf(value: unknown): number | undefined {
  const time = typeof value === "string" ? Date.parse(value) : Number(value ?? NaN);
  return Number.isFinite(time) ? time : undefined;
}

/** A text of a log; another one where it has none. */
export function loggedText(value: unknown, other = ""): string {
  return typeof value === "string" ? value : other;
}

/** A number of tokens. */
export function tokensOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}

/** A usage as recordings hold it. */
function recordedUsage(usage: Usage): RecordedUsage {
  const { promptTokens, cachedTokens, cacheWriteTokens, outputTokens } = usage;
  return {
    input: promptTokens - cachedTokens - (cacheWriteTokens ?? 0),
    cache_read: cachedTokens,
    ...(cacheWriteTokens !== undefined && { cache_write: cacheWriteTokens }),
    output: outputTokens,
  };
}

/** A message as recordings hold it: as text, and that a call failed is a note. */
export function noted(message: Message, atMs: number | undefined): LoggedMessage {
  const notes = atMs === undefined ? {} : { ts: atMs };
  if (message.role === "function") return { ...message, ...notes };
  const content = writtenText(message.content ?? "");
  if (message.role !== "tool") return { ...message, content, ...notes };
  const { role, tool_call_id, failed } = message;
  return { role, tool_call_id, content, ...notes, ...(failed === true && { error: true }) };
}

/** What a content says, and that it shows something else. */
function writtenText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) =>
    part.type === "text" ? part.text : part.type === "refusal" ? part.refusal : `[${part.type} omitted]`
  ).join("\n");
}

/** An answer that is put together from several lines, and what its calls were answered. */
export class LoggedAnswer {
  readonly #texts: string[] = [];
  readonly #calls: NonNullable<Extract<Message, { role: "assistant" }>["tool_calls"]>[number][] = [];
  readonly #ts: number | undefined;
  #usage: RecordedUsage | undefined;

  constructor(ts: number | undefined) {
    this.#ts = ts;
  }

  /** Adds what another line holds of it. */
  add(message: Message): void {
    if (message.role !== "assistant") return;
    const { content, tool_calls: calls = [] } = message;
    const text = writtenText(content ?? "");
    if (text !== "") this.#texts.push(text);
    this.#calls.push(...calls);
  }

  /** What the provider reported of it. */
  took(usage: Usage): void {
    this.#usage = recordedUsage(usage);
  }

  /** Ids of its calls. */
  get callIds(): readonly string[] {
    return this.#calls.map(({ id }) => id);
  }

  /** It, and behind it the results: calls without one were never answered, and are left out. */
  messages(results: ReadonlyMap<string, LoggedMessage>): LoggedMessage[] {
    const calls = this.#calls.filter(({ id }, at) => results.has(id) && this.callIds.indexOf(id) === at);
    if (calls.length === 0 && this.#texts.length === 0) return [];
    const answer: LoggedMessage = {
      role: "assistant",
      content: this.#texts.length === 0 ? null : this.#texts.join("\n"),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(this.#ts !== undefined && { ts: this.#ts }),
      ...(this.#usage && { usage: this.#usage }),
    };
    return [answer, ...calls.flatMap(({ id }) => results.get(id) ?? [])];
  }
}

/** Ids of the entries from the first one to this one, each the parent of the next. */
export function pathTo(
  leaf: string | undefined,
  parents: ReadonlyMap<string, string | undefined>,
): Set<string> {
  const path = new Set<string>();
  for (let id = leaf; id !== undefined && !path.has(id); id = parents.get(id)) path.add(id);
  return path;
}

/** What a log holds in its order: answers take what their calls were answered, wherever that stands. */
export type LogPiece = LoggedMessage | LoggedAnswer | "compacted";

/** The conversation that a log's pieces make. */
export function conversationOf(
  pieces: readonly LogPiece[],
  results: ReadonlyMap<string, LoggedMessage>,
): Pick<LoggedSession, "messages" | "compacted"> {
  const messages: LoggedMessage[] = [];
  const compacted: number[] = [];
  for (const piece of pieces) {
    if (piece === "compacted") compacted.push(messages.length);
    else messages.push(...piece instanceof LoggedAnswer ? piece.messages(results) : [piece]);
  }
  return { messages, compacted };
}

/** What a log says of a conversation in its order, where each entry is a message. */
export interface LogEntry {
  readonly ts: number | undefined;
  /** Absent where it was compacted. */
  readonly message?: Message;
  /** What the provider reported of it. */
  readonly usage?: Usage | undefined;
}

/** The conversation that such entries make. */
export function conversationOfEntries(
  entries: readonly LogEntry[],
): Pick<LoggedSession, "messages" | "compacted"> {
  const results = new Map<string, LoggedMessage>();
  const pieces = entries.flatMap(({ ts, message, usage }): LogPiece[] => {
    if (!message) return ["compacted"];
    if (message.role === "tool") results.set(message.tool_call_id, noted(message, ts));
    if (message.role === "tool") return [];
    if (message.role !== "assistant") return [noted(message, ts)];
    const answer = new LoggedAnswer(ts);
    answer.add(message);
    if (usage) answer.took(usage);
    return [answer];
  });
  return conversationOf(pieces, results);
}

/** A call for a tool, as a log writes it; none if it lacks what names it. */
export function loggedCall(id: unknown, name: unknown, args: unknown) {
  if (typeof id !== "string" || typeof name !== "string") return [];
  return [{ id, type: "function" as const, function: { name, arguments: JSON.stringify(args ?? {}) } }];
}

/** The objects of a list. */
export function objectsIn(value: unknown): JsonRecord[] {
  return Array.isArray(value) ? value.map((one) => asRecord(one) ?? {}) : [];
}
