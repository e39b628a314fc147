import type { Content, Message, Usage } from "@tare/messages";
import type { RecordedUsage } from "@tare/simulator/economy";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { type CallFingerprints, fingerprint, type Lineage } from "./copies.ts";

export interface LoggedCall {
  /** Time of the request in milliseconds, as far as it is logged. */
  readonly atMs: number;
  readonly model: string;
  readonly usage: Usage;
  /** Unique in its session. */
  readonly id: string;
  readonly fingerprints: CallFingerprints;
}

export type LoggedMessage = Message & {
  readonly ts?: number;
  readonly usage?: RecordedUsage;
  readonly error?: true;
};

/** A logged session: one growing prompt. Subagents are separate sessions. */
export interface LoggedSession {
  readonly id: string;
  readonly group: string;
  readonly project: string;
  /** Empty if replies are logged without a usage that is read. */
  readonly calls: readonly LoggedCall[];
  /** Messages of the newest branch, including those before a compaction. Empty unless requested. */
  readonly messages: readonly LoggedMessage[];
  /** Positions of compactions: the preceding messages were replaced by a summary. */
  readonly compacted: readonly number[];
  readonly lineage?: Lineage;
}

export interface ReadOptions {
  readonly messages: boolean;
  readonly only?: string;
  readonly line: (isKnown: boolean) => void;
  /** Called with what a log contains that is newer than what is read. */
  readonly newer?: (what: string) => void;
}

export interface Places {
  readonly home: string;
  readonly env: (name: string) => string | undefined;
  /** Called with each folder that can't be listed. Default: none. */
  readonly unreadable?: (path: string, error: unknown) => void;
}

export interface LogFormat {
  readonly agent: string;
  readonly find: (places: Places) => Iterable<string>;
  readonly read: (path: string, options: ReadOptions) => Iterable<LoggedSession>;
}

const MAX_LINE = 64 * 1024 * 1024;

/** Yields the lines of a file; one that is too long is empty. */
function* linesOf(path: string): Generator<string> {
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

/**
 * Returns a reader of files of JSON lines. `begin` returns a function that processes a line of one file and returns
 * whether its format is known; `logOf` returns the log of the session or, by name, of a subagent.
 */
export function lineReader(begin: LineReader): LogFormat["read"] {
  return (path, options) => {
    const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.jsonl.*$/, "");
    return readLines(begin, { ...options, name, path, lines: linesOf(path) });
  };
}

export type LineReader = (
  logOf: (thread?: string) => SessionLog,
  context: { readonly path: string; readonly newer: (what: string) => void },
) => (line: JsonRecord) => boolean;

/** Returns the sessions of a log's lines. `name` is the id of a session whose lines don't contain one. */
export function readLines(
  begin: LineReader,
  { name, path, lines, messages, line: report, newer = () => {} }: ReadOptions & {
    readonly name: string;
    readonly path: string;
    readonly lines: Iterable<string>;
  },
): LoggedSession[] {
  const logs = new Map<string, SessionLog>();
  const take = begin((thread = "") => {
    const log = logs.get(thread) ?? new SessionLog(thread || name, messages);
    logs.set(thread, log);
    return log;
  }, { path, newer });
  for (const line of lines) {
    const value = asRecord(parsedJson(line));
    report(value !== undefined && take(value));
  }
  return [...logs.values()].flatMap((log) => log.sessions());
}

export function parsedJson(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/**
 * Yields the files below a folder with this ending, sorted; none if the folder doesn't exist. Follows symbolic links.
 * `isFlat` excludes the files of its folders, `above` contains the targets of links on the way to it.
 */
export function* filesIn(
  folder: string,
  ending: string | RegExp,
  places: Pick<Places, "unreadable">,
  { isFlat = false, above = [] }: { readonly isFlat?: boolean; readonly above?: readonly string[] } = {},
): Generator<string> {
  for (const { name, isDirectory, isSymlink } of listFolder(folder, places)) {
    const path = `${folder}/${name}`;
    if (isDirectory) {
      if (!isFlat) yield* filesIn(path, ending, places, { above });
    } else if (isSymlink && mayBeFolder(path)) {
      const real = linkTarget(path);
      const isCycle = above.includes(real) || `${linkTarget(folder)}/`.startsWith(`${real}/`);
      if (!isFlat && !isCycle) yield* filesIn(path, ending, places, { above: [...above, real] });
    } else if (typeof ending === "string" ? name.endsWith(ending) : ending.test(name)) yield path;
  }
}

/** Returns the entries of a folder, sorted; none if it doesn't exist. Reports one that can't be listed. */
export function listFolder(folder: string, { unreadable }: Pick<Places, "unreadable">): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(folder)].sort((a, b) => a.name < b.name ? -1 : 1);
  } catch (error) {
    const isAbsent = error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
    if (!isAbsent) unreadable?.(folder, error);
    return [];
  }
}

/** Returns whether a path is a folder or a link to one, or may be one that can't be read. */
export function mayBeFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    return isReadDenied(error);
  }
}

export function isReadDenied(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable;
}

export function linkTarget(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

export function timeOf(value: unknown): number | undefined {
  const time = typeof value === "string" ? Date.parse(value) : Number(value ?? NaN);
  return Number.isFinite(time) ? time : undefined;
}

export function loggedText(value: unknown, other = ""): string {
  return typeof value === "string" ? value : other;
}

export function objectsIn(value: unknown): JsonRecord[] {
  return Array.isArray(value) ? value.map((one) => asRecord(one) ?? {}) : [];
}

export function loggedCall(id: unknown, name: unknown, args: unknown) {
  if (typeof id !== "string" || typeof name !== "string") return [];
  return [{ id, type: "function" as const, function: { name, arguments: JSON.stringify(args ?? {}) } }];
}

type ToolCalls = NonNullable<Extract<Message, { role: "assistant" }>["tool_calls"]>;

interface Reply {
  readonly name: string;
  readonly ts: number | undefined;
  readonly texts: string[];
  readonly calls: ToolCalls[number][];
}

type Entry =
  & { readonly id: string | undefined }
  & ({ readonly message: LoggedMessage } | { readonly reply: Reply } | { readonly isCompacted: true });

export interface NewCall extends Omit<LoggedCall, "atMs" | "fingerprints"> {
  readonly atMs?: number | undefined;
  readonly ts?: number | undefined;
  readonly reply?: string;
  /** Text of the reply, for its default fingerprint. */
  readonly said?: string;
  /** Default: one of the time (or else the session), the usage and the text. */
  readonly fingerprints?: () => CallFingerprints;
}

interface Position {
  readonly ts?: number | undefined;
  readonly id?: string;
  readonly reply?: string;
}

export class SessionLog {
  #id: string;
  #group = "";
  #project = "";
  #lastMs: number | undefined;
  readonly #hasMessages: boolean;
  readonly #calls = new Map<string, LoggedCall>();
  readonly #usages = new Map<string, Usage>();
  readonly #entries: Entry[] = [];
  readonly #results = new Map<string, LoggedMessage>();
  readonly #parents = new Map<string, string | undefined>();
  #newest: Reply | undefined;
  #replies = 0;
  #lineage: Lineage | undefined;

  constructor(id: string, hasMessages: boolean) {
    this.#id = id;
    this.#hasMessages = hasMessages;
  }

  get id(): string {
    return this.#id;
  }

  /** Whether messages are read, not only usage. */
  get hasMessages(): boolean {
    return this.#hasMessages;
  }

  /** Sets the id, and group and project unless they are set. */
  name({ id, group, project }: { readonly [N in "id" | "group" | "project"]?: unknown }): void {
    this.#id = loggedText(id, this.#id);
    this.#group ||= loggedText(group);
    this.#project ||= loggedText(project);
  }

  setLineage(lineage: Lineage): void {
    this.#lineage = lineage;
  }

  passed(ts: number | undefined): void {
    this.#lastMs = ts ?? this.#lastMs;
  }

  /** Adds a call. Of repeated records the one with the longest output counts, then the longest prompt. */
  call(
    { id, model, usage, ts, atMs = this.#lastMs ?? ts ?? 0, reply = id, said = "", fingerprints }: NewCall,
  ): void {
    const known = this.#calls.get(id);
    const isEmpty = usage.promptTokens + usage.outputTokens === 0 && !usage.innerCalls && !usage.serverTools;
    if (isEmpty || known && !isLonger(usage, known.usage)) return;
    this.#calls.set(id, {
      ...{ id, model, usage, atMs: known?.atMs ?? atMs },
      fingerprints: known?.fingerprints ?? fingerprints?.() ?? {
        own: [fingerprint(ts ?? `${this.#id} ${id}`, usageText(usage), said)],
      },
    });
    if (this.#hasMessages) this.#usages.set(reply, usage);
  }

  /** Adds fingerprints to a call. */
  identify(id: string, added: readonly number[]): void {
    const known = this.#calls.get(id);
    if (!known) return;
    const { own } = known.fingerprints;
    this.#calls.set(id, { ...known, fingerprints: { ...known.fingerprints, own: [...own, ...added] } });
  }

  /** Links an entry to its parent, in logs whose entries are a tree. */
  link(id: string, parent: unknown): void {
    if (this.#hasMessages) this.#parents.set(id, typeof parent === "string" ? parent : undefined);
  }

  /** Counts a reply whose message isn't read. */
  countReply(): void {
    this.#replies++;
  }

  addMessage(message: Message, { ts, id, reply = id ?? `${this.#entries.length}` }: Position): void {
    if (message.role === "assistant") this.#replies++;
    if (!this.#hasMessages) return;
    if (message.role === "tool") this.#results.set(message.tool_call_id, recorded(message, ts));
    else if (message.role !== "assistant") this.#entries.push({ id, message: recorded(message, ts) });
    else {
      if (this.#newest?.name !== reply) this.#newest = { name: reply, ts, texts: [], calls: [] };
      const text = plainText(message.content ?? "");
      if (text !== "") this.#newest.texts.push(text);
      this.#newest.calls.push(...message.tool_calls ?? []);
      this.#entries.push({ id, reply: this.#newest });
    }
  }

  compact(id?: string): void {
    if (this.#hasMessages) this.#entries.push({ id, isCompacted: true });
  }

  sessions(): LoggedSession[] {
    const calls = [...this.#calls.values()];
    if (calls.length === 0 && this.#replies === 0) return [];
    const id = this.#id;
    const names = { id, group: this.#group || id, project: this.#project };
    return [{
      ...names,
      calls,
      ...this.#conversation(),
      ...(this.#lineage && { lineage: this.#lineage }),
    }];
  }

  /** Returns the newest branch, with complete replies each followed by the results of its calls. */
  #conversation(): Pick<LoggedSession, "messages" | "compacted"> {
    const leaf = this.#entries.findLast((entry) => !("isCompacted" in entry))?.id;
    const path = new Set<string>();
    for (let id = leaf; id !== undefined && !path.has(id); id = this.#parents.get(id)) path.add(id);
    const isOnPath = ({ id }: Entry) => id === undefined || path.has(id);
    const replies = new Set(
      this.#entries.flatMap((entry) => "reply" in entry && isOnPath(entry) ? [entry.reply] : []),
    );
    const messages: LoggedMessage[] = [];
    const compacted: number[] = [];
    for (const entry of this.#entries) {
      if ("reply" in entry) {
        messages.push(...replies.delete(entry.reply) ? this.#replyWithResults(entry.reply) : []);
      } else if (!isOnPath(entry)) continue;
      else if ("message" in entry) messages.push(entry.message);
      else compacted.push(messages.length);
    }
    return { messages, compacted };
  }

  #replyWithResults({ name, ts, texts, calls: all }: Reply): LoggedMessage[] {
    const calls = all.filter(({ id }, at) =>
      this.#results.has(id) && all.findIndex((call) => call.id === id) === at
    );
    if (calls.length === 0 && texts.length === 0) return [];
    const usage = this.#usages.get(name);
    const reply: LoggedMessage = {
      role: "assistant",
      content: texts.length === 0 ? null : texts.join("\n"),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(ts !== undefined && { ts }),
      ...(usage && { usage: recordedUsage(usage) }),
    };
    return [reply, ...calls.flatMap(({ id }) => this.#results.get(id) ?? [])];
  }
}

function isLonger(usage: Usage, known: Usage): boolean {
  return usage.outputTokens > known.outputTokens ||
    usage.outputTokens === known.outputTokens && usage.promptTokens > known.promptTokens;
}

export function usageText({ promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens }: Usage): string {
  return `${promptTokens} ${cachedTokens} ${cacheWriteTokens} ${outputTokens}`;
}

function recordedUsage({ promptTokens, cachedTokens, cacheWriteTokens, outputTokens }: Usage): RecordedUsage {
  return {
    input: promptTokens - cachedTokens - (cacheWriteTokens ?? 0),
    cache_read: cachedTokens,
    ...(cacheWriteTokens !== undefined && { cache_write: cacheWriteTokens }),
    output: outputTokens,
  };
}

/** Returns a message in the format of recordings: text only, with `error` for failed calls. */
function recorded(message: Message, ts: number | undefined): LoggedMessage {
  const time = ts === undefined ? {} : { ts };
  if (message.role === "function") return { ...message, ...time };
  const content = plainText(message.content ?? "");
  if (message.role !== "tool") return { ...message, content, ...time };
  const { role, tool_call_id, failed } = message;
  return { role, tool_call_id, content, ...time, ...(failed === true && { error: true }) };
}

function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) =>
    part.type === "text" ? part.text : part.type === "refusal" ? part.refusal : `[${part.type} omitted]`
  ).join("\n");
}
