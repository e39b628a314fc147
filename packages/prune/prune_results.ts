import {
  contentText,
  countRequestTokens,
  type CountTokens,
  estimateTokens,
  type Message,
  type Tool,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import {
  checkGiven,
  countMessageTokens,
  exitCodeIn,
  meantCall,
  type Needed,
  pairCalls,
} from "@tare/messages/internal";
import { type Archive, archiveText, bytesFromText } from "./archive.ts";
import { formatPlaceholder, holdsPlaceholder, parsePlaceholder, splitTruncated } from "./placeholder.ts";
import { RECALL_TOOL } from "./recall_tool.ts";

/**
 * Replaces every old tool result that {@linkcode selectElisions} returns with a one-line placeholder, after
 * archiving its original. Idempotent. If archiving fails, the result has a `failure` and nothing changes.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { memoryArchive, pruneResults } from "@tare/prune";
 *
 * const log = "x".repeat(5000);
 * const messages: Message[] = [
 *   { role: "user", content: "Is the build green?" },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: log },
 *   { role: "assistant", content: "Yes." },
 * ];
 * const archive = memoryArchive();
 * const pruned = await pruneResults(messages, { archive, countTokens: estimateTokens, protectTokens: 100 });
 * if (pruned.failure) throw pruned.failure;
 * assertStringIncludes(String(pruned.messages[2]?.content), "[elided: log result, 5000 bytes; ref ");
 * assertEquals(await archive.get(pruned.elisions[0]?.ref ?? ""), log);
 * ```
 */
export async function pruneResults<M extends Message>(
  messages: readonly M[],
  options: PruneOptions,
): Promise<PruneResult<M>> {
  checkGiven("pruneResults()", { messages, options }, { messages: "messages", options: ELIDING });
  const elisions = elide(messages, selectElisions(messages, options), options);
  return await settleElisions(messages, { elisions, countTokens: options.countTokens });
}

/** Messages that are unchanged because originals could not be archived. */
export interface PruneFailure<M extends Message> {
  readonly failure: Error;
  readonly unchanged: readonly M[];
}

/** Pruned messages or a failure: check `failure` first. */
export type PruneResult<M extends Message> = PruneFailure<M> | {
  readonly failure?: undefined;
  readonly messages: readonly M[];
  /** Changes, for storage and {@linkcode applyElisions}. */
  readonly elisions: readonly Elision[];
  readonly tokensBefore: number;
  readonly tokensAfter: number;
};

/** Archives the originals of elisions and applies them, or returns the failure. */
export async function settleElisions<M extends Message>(
  messages: readonly M[],
  { elisions: settling, countTokens = estimateTokens }: {
    readonly elisions: Promise<readonly Elision[]>;
    readonly countTokens?: CountTokens | undefined;
  },
): Promise<PruneResult<M>> {
  const tokensBefore = countRequestTokens({ messages }, countTokens);
  try {
    const elisions = await settling;
    if (elisions.length === 0) return { messages, elisions, tokensBefore, tokensAfter: tokensBefore };
    const tokensAfter = elisions.reduce((sum, one) => sum - one.tokensBefore + one.tokensAfter, tokensBefore);
    return { messages: applyElisions(messages, elisions), elisions, tokensBefore, tokensAfter };
  } catch (failure) {
    if (!(failure instanceof Error)) throw failure;
    return { failure, unchanged: messages };
  }
}

/** Traits of tools that pruning uses, by tool name. */
export type ToolTraits = Readonly<Record<string, Pick<Tool, "stance" | "reads" | "writes" | "replays">>>;

/** Options of {@linkcode pruneResults}. */
export interface PruneOptions {
  readonly archive: Archive;
  /** Token counter; the count of each message object is cached. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Traits of tools by name; other tools count as `once`. Default: none. */
  readonly tools?: ToolTraits | undefined;
  /** Whether the model has the recall tool, which placeholders then name. Default: false. */
  readonly recall?: boolean | undefined;
  /** Context window of the model, in tokens; at most half of it is protected. Default: no such limit. */
  readonly windowTokens?: number | undefined;
  /** Tokens at the end of the messages in which nothing is elided. Default: 16,384. */
  readonly protectTokens?: number | undefined;
  /** UTF-8 bytes below which a result is retained. Default: 1,024. */
  readonly minBytes?: number | undefined;
  /**
   * Returns whether a result whose protocol and client state no outcome reports an error; such results are
   * retained. Default: by exit code, else by the form of the first and last line.
   */
  readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
}

/** Options of {@linkcode selectElisions}. */
export type SelectOptions = Omit<PruneOptions, "archive">;

/**
 * Returns the tool results that may be evicted: superseded ones first, then old ones, each oldest first.
 *
 * A candidate is before the protected tail, contains only text, has `minBytes`, loses at least half of its
 * tokens, and is followed by an assistant message. Retained are results of tools with the stance `keep`,
 * errors, and originals that were recalled twice. A result is *superseded* if a later successful call repeats
 * its tool and arguments or writes all files that it read. The last line of a result of a tool that `replays`
 * lists the files that its calls wrote.
 *
 * `tokensAfter` is an estimate, accurate to a few tokens.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import type { Message } from "@tare/messages";
 * import { selectElisions } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "x".repeat(5000) },
 *   { role: "assistant", content: "Yes." },
 * ];
 * assertEquals(selectElisions(messages, { protectTokens: 100 }).map(({ index }) => index), [1]);
 * ```
 */
export function selectElisions(
  messages: readonly Message[],
  options: Omit<PruneOptions, "archive">,
): Omit<Elision, "ref" | "text">[] {
  checkGiven("selectElisions()", { messages, options }, {
    messages: "messages",
    options: { ...SELECTING, "archive?": "object" },
  });
  const { countTokens = estimateTokens, minBytes = 1024 } = options;
  const results = pairResults(messages);
  const superseded = findSuperseded(results, options);
  const wanted = recalledTwice(results);
  const end = Math.min(
    protectedFrom(messages, options),
    messages.findLastIndex((message) => message.role === "assistant"),
  );
  const placeholderTokens = new Map<string, number>();
  const first: ElisionCandidate[] = [];
  const rest: ElisionCandidate[] = [];
  for (const { index, message, call } of results) {
    if (index >= end) break;
    const traits = traitsOf(call.tool, options.tools);
    if (traits.stance === "keep") continue;
    const text = resultOriginal(message, options.tools?.[call.tool] !== undefined);
    if (text === undefined || !hasBytes(text, minBytes)) continue;
    if (parsePlaceholder(text)) continue;
    if (reportsError(message, index, options)) continue;
    const isSuperseded = superseded.has(index);
    if (!isSuperseded && wanted.some((ref) => recalledRef(call) === ref || holdsPlaceholder(text, ref))) {
      continue;
    }
    const tokensBefore = countMessageTokens(message, countTokens);
    // The size has as many digits as in the placeholder, so that each choice is independent of the others.
    const alike = `${call.tool} ${String(text.length).length}`;
    let tokensAfter = placeholderTokens.get(alike);
    if (tokensAfter === undefined) {
      const standIn = { of: "result", tool: call.tool, bytes: text.length, ref: "0123456789abcdef" } as const;
      const content = formatPlaceholder(standIn, { ...options, ...traits });
      tokensAfter = countMessageTokens({ ...message, content }, countTokens);
      placeholderTokens.set(alike, tokensAfter);
    }
    if (tokensBefore < 2 * tokensAfter) continue;
    (isSuperseded ? first : rest).push({
      ...{ index, toolCallId: message.tool_call_id, tool: call.tool, tokensBefore, tokensAfter },
      reason: isSuperseded ? "superseded" : "old",
    });
  }
  return [...first, ...rest];
}

/** Returns the traits of a tool. */
export function traitsOf(tool: string, tools: ToolTraits = {}): ToolTraits[string] {
  return (Object.hasOwn(tools, tool) ? tools[tool] : undefined) ?? {};
}

function protectedFrom(messages: readonly Message[], options: SelectOptions): number {
  const { countTokens = estimateTokens, windowTokens = Infinity, protectTokens = 16_384 } = options;
  let left = Math.min(protectTokens, windowTokens / 2);
  let from = messages.length;
  for (const message of messages.toReversed()) {
    left -= countMessageTokens(message, countTokens);
    if (left < 0) break;
    from -= 1;
  }
  return from;
}

function findSuperseded(results: readonly PairedResult[], options: SelectOptions): Set<number> {
  const superseded = new Set<number>();
  const keysByTool = new Map<string, Set<string>>();
  const written = new Set<string>();
  for (const { index, message, call } of results.toReversed()) {
    const { reads, writes, replays } = traitsOf(call.tool, options.tools);
    let keys = keysByTool.get(call.tool);
    if (keys === undefined) keysByTool.set(call.tool, keys = new Set());
    const read = resources(call, reads);
    if (keys.has(call.key) || read.length > 0 && read.every((path) => written.has(path))) {
      superseded.add(index);
    }
    // Files are written even if the program failed afterwards.
    for (const path of replays ? pathsWritten(message) : []) written.add(plainPath(path));
    if (reportsError(message, index, options)) continue;
    keys.add(call.key);
    for (const path of resources(call, writes)) written.add(path);
  }
  return superseded;
}

function resources(call: ParsedCall, argument: string | undefined): readonly string[] {
  return (argument === undefined ? undefined : call.args.get(argument))?.map(plainPath) ?? [];
}

function plainPath(path: string): string {
  return path.replace(/^(\.\/+)+/, "");
}

function pathsWritten(message: ToolMessage): readonly string[] {
  return /\n\[Written: (.*)\]$/.exec(resultText(message) ?? "")?.[1]?.split(", ") ?? [];
}

function recalledTwice(results: readonly PairedResult[]): string[] {
  const counts = new Map<string, number>();
  for (const { call } of results) {
    const ref = recalledRef(call);
    if (ref !== undefined) counts.set(ref, (counts.get(ref) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count >= 2).map(([ref]) => ref);
}

function recalledRef(call: ParsedCall): string | undefined {
  return call.tool === RECALL_TOOL.function.name ? call.args.get("ref")?.[0] : undefined;
}

function hasBytes(text: string, bytes: number): boolean {
  // A UTF-16 code unit takes one to three bytes, so most texts need no encoding.
  if (text.length >= bytes) return true;
  return text.length * 3 >= bytes && bytesFromText(text).length >= bytes;
}

/**
 * Replacement of a tool result's text by a shorter one. Plain data: applying it again to the same history
 * gives the same bytes. The original is in the archive.
 */
export interface Elision {
  readonly index: number;
  /** `tool_call_id` of the result, which verifies the index. */
  readonly toolCallId: string;
  readonly tool: string;
  readonly ref: string;
  /** Replacement text. */
  readonly text: string;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /**
   * Reason: `superseded` by a later result, `old` (before the protected tail), or `truncated` to head and
   * tail at ingestion.
   */
  readonly reason: "superseded" | "old" | "truncated";
}

/** Result that may be evicted, with the estimated tokens. */
export type ElisionCandidate = Omit<Elision, "ref" | "text">;

/**
 * Returns the messages with the text of each elision as the result's content; all others are the same
 * objects. Elided messages are cached for repeated calls on a growing history. The last elision of a message
 * wins.
 *
 * @throws {RangeError} if an elision doesn't match the tool result at its index.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applyElisions } from "@tare/prune";
 *
 * const messages = applyElisions(
 *   [{ role: "tool", tool_call_id: "a", content: "long" }],
 *   [{ index: 0, toolCallId: "a", text: "short" }],
 * );
 * assertEquals(messages[0]?.content, "short");
 * ```
 */
export function applyElisions<M extends Message>(
  messages: readonly M[],
  elisions: readonly Pick<Elision, "index" | "toolCallId" | "text">[],
): M[] {
  const view = [...messages];
  for (const { index, toolCallId, text } of elisions) {
    const message = messages[index];
    if (message?.role !== "tool" || message.tool_call_id !== toolCallId) {
      throw new RangeError(`Cannot elide message ${index}: it is no tool result with the id '${toolCallId}'`);
    }
    view[index] = withText(message, text);
  }
  return view;
}

const elided = new WeakMap<Message, Message>();

function withText<M extends Message>(message: M, text: string): M {
  if (message.content === text) return message;
  let result = elided.get(message);
  if (result?.content !== text) elided.set(message, result = { ...message, content: text });
  return result as M;
}

const SELECTING: Readonly<Record<string, Needed>> = {
  "countTokens?": "counter",
  "tools?": "object",
  "recall?": "boolean",
  "windowTokens?": "positive",
  "protectTokens?": "count",
  "minBytes?": "count",
  "isError?": "function",
  "limitTokens?": "count",
  "pruneAt?": "share",
  "summarizeAt?": "share",
  "countPrompt?": "function",
  "summarize?": "function",
  "signal?": "object",
  "keepTokens?": "count",
  "activeTurnStart?": "number",
};

/** Common options of everything that archives originals. */
export const ELIDING: Readonly<Record<string, Needed>> = {
  ...SELECTING,
  archive: { put: "function", get: "function" },
};

/** Maximum number of concurrent archive writes: each may be an open file. */
const PARALLEL_PUTS = 16;

/** Options of {@linkcode elide}. */
export type ElideOptions = Pick<PruneOptions, "archive" | "countTokens" | "tools" | "recall">;

/**
 * Archives the originals of the chosen results and returns their elisions. A result that was truncated before
 * keeps the reference of its whole original.
 *
 * @throws {Error} if one can't be archived. Then none is elided; originals archived so far are harmless.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive } from "@tare/prune";
 * import { elide } from "@tare/prune";
 *
 * const result = { role: "tool", tool_call_id: "1", content: "a long log" } as const;
 * const chosen = { index: 0, toolCallId: "1", tool: "log", tokensBefore: 7, tokensAfter: 7, reason: "old" } as const;
 * const [elision] = await elide([result], [chosen], { archive: memoryArchive() });
 * assertEquals(elision?.text, "[elided: log result, 10 bytes; ref db7ef94451345d54]");
 * ```
 */
export async function elide(
  messages: readonly Message[],
  candidates: readonly Omit<Elision, "ref" | "text">[],
  options: Pick<PruneOptions, "archive" | "countTokens" | "tools" | "recall">,
): Promise<Elision[]> {
  const elisions: Elision[] = [];
  for (let from = 0; from < candidates.length; from += PARALLEL_PUTS) {
    const batch = candidates.slice(from, from + PARALLEL_PUTS);
    const settled = await Promise.allSettled(
      batch.map((candidate) => elideOne(messages, candidate, options)),
    );
    for (const outcome of settled) {
      if (outcome.status === "rejected") throw outcome.reason;
      elisions.push(outcome.value);
    }
  }
  return elisions;
}

async function elideOne(
  messages: readonly Message[],
  candidate: ElisionCandidate,
  options: ElideOptions,
): Promise<Elision> {
  const { archive, countTokens = estimateTokens, recall = false } = options;
  const { index, tool } = candidate;
  const message = messages[index];
  const original = message?.role === "tool" ? resultOriginal(message) : undefined;
  if (message === undefined || original === undefined) {
    throw new RangeError(`Cannot elide message ${index}: it is no tool result of text alone`);
  }
  const { ref, bytes } = await findWhole(original, archive) ?? {
    ref: await archiveText(original, archive, `a result of ${tool}`),
    bytes: bytesFromText(original).length,
  };
  const text = formatPlaceholder({ of: "result", tool, bytes, ref }, {
    ...traitsOf(tool, options.tools),
    recall,
  });
  const tokensAfter = countMessageTokens({ ...message, content: text }, countTokens);
  return { ...candidate, ref, text, tokensAfter };
}

async function findWhole(
  text: string,
  archive: Archive,
): Promise<{ readonly ref: string; readonly bytes: number } | undefined> {
  for (const { ref, bytes, head, tail } of splitTruncated(text)) {
    // If the original can't be read, the text at hand is archived.
    const whole = await archive.get(ref).catch(() => undefined);
    if (whole !== undefined && whole.startsWith(head) && whole.endsWith(tail)) return { ref, bytes };
  }
  return undefined;
}

interface ParsedCall {
  readonly tool: string;
  readonly key: string;
  /** Short texts by the name of their argument, at any depth. */
  readonly args: ReadonlyMap<string, readonly string[]>;
}

/** Tool message and the call that it answers. */
export interface PairedResult {
  readonly index: number;
  readonly message: ToolMessage;
  readonly call: ParsedCall;
}

/** Returns the results whose calls are known, in order (see `pairCalls`). */
export function pairResults(messages: readonly Message[]): PairedResult[] {
  return pairCalls(messages)
    .flatMap(({ call, answer }) =>
      answer ? [{ index: answer.at, message: answer.message, call: readCall(call) }] : []
    )
    .sort((a, b) => a.index - b.index);
}

/** Returns the text of a result; `undefined` if it must be retained or contains anything but text. */
export function resultText({ content, keep }: ToolMessage): string | undefined {
  if (keep) return undefined;
  if (typeof content === "string") return content;
  return content.every((part) => part.type === "text") ? contentText(content) : undefined;
}

/**
 * Returns the text to archive for a result: its text, or its parts as JSON if it contains images. `undefined`
 * if it must be retained, contains other parts, or contains images of an unknown tool.
 */
export function resultOriginal(message: ToolMessage, isKnown = true): string | undefined {
  const { content, keep } = message;
  const holds = isKnown && !keep && typeof content !== "string" &&
    content.every((part) =>
      part.type === "text" || (part.type === "image_url" && part.image_url.url?.startsWith("data:"))
    );
  return resultText(message) ?? (holds ? JSON.stringify(content) : undefined);
}

/** Length above which arguments are compared verbatim and not parsed as paths. */
const SHORT_CHARS = 1024;

const known = new WeakMap<ToolCall, ParsedCall>();

function readCall(call: ToolCall): ParsedCall {
  let read = known.get(call);
  if (!read) known.set(call, read = parseCall(call));
  return read;
}

function parseCall(call: ToolCall): ParsedCall {
  const { name: tool, arguments: text } = meantCall(call);
  if (call.type === "custom") return { tool, key: text, args: new Map() };
  try {
    const value: unknown = JSON.parse(text);
    const args = new Map<string, string[]>();
    addShortTexts(args, value);
    return { tool, key: text.length > SHORT_CHARS ? text : canonicalJson(value), args };
  } catch {
    // Arguments that aren't JSON, or are nested too deeply, equal only the same text.
    return { tool, key: text, args: new Map() };
  }
}

function addShortTexts(args: Map<string, string[]>, value: unknown): void {
  for (const [name, part] of Object.entries(value ?? {})) {
    if (typeof part === "object") addShortTexts(args, part);
    else if (typeof part === "string" && part.length <= SHORT_CHARS) {
      const texts = args.get(name);
      if (texts) texts.push(part);
      else args.set(name, [part]);
    }
  }
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, inner) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1));
  });
}

/** UTF-16 code units that are inspected at each end of a text. */
const HEAD_CHARS = 1_000;
const TAIL_CHARS = 1_000;

// deno-lint-ignore no-control-regex
const COLORS = /\x1b\[[\d;]*m/g;

/** Error reasons that programs print after their name and operand. */
const REASONS =
  "no such file or directory|permission denied|command not found|not found|is a directory|not a directory|" +
  "operation not permitted|connection (?:refused|timed out)|cannot [a-z]+ .+";

const FIRST_LINES: readonly RegExp[] = [
  // `Error: …`, `error[E0308]: …`, `error TS2304: …`, but no count and no key of a file.
  /^error(?:\s*[[(][^\])]{1,40}[\])]|\s+[A-Z]{1,8}\d+)?:\s+(?!(?:0|none|null|false|undefined|string|boolean)\b)\S/i,
  /^error (?:executing|running|reading|writing|calling|invoking|processing|parsing|opening|loading|while|during|occurred|code:? \S)/i,
  /^an? (?:unexpected |internal )?(?:error|exception) (?:occurred|happened|was thrown)\b/i,
  /^cannot (?!be\b)[a-z]+\b/i,
  /^(?:failed|unable) to [a-z]+\b/i,
  /^could not [a-z]+\b/i,
  /^(?:file|directory|path|tool|command) (?:not found|does not exist)\b/i,
  /^<tool_use_error>/,
  /^(?:mcp|tool|execution|runtime|fatal) error\b.{0,40}:\s*\S/i,
  /^request failed with status\b/i,
  /^(?:(?:uncaught|unhandled)\b.{0,30}\s)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\s*[[(][^\])]{1,40}[\])])?:\s*\S/,
  /^(?:uncaught|unhandled) .{0,40}(?:error|exception|rejection)\b/i,
  /^traceback \(most recent call last\):\s*$/i,
  /^exception in thread "/i,
  /^panic: \S/,
  /^thread '.*' (?:\(\d+\) )?panicked at\b/,
  /^segmentation fault\b/i,
  /^fatal: \S/i,
  /^(?:npm|pnpm|yarn) (?:err!|error\b)/i,
  /^\s?ERR_[A-Z_]+/,
  /^g?make(?:\[\d+\])?: \*\*\* /,
  /^E: [A-Z]/,
  /^curl: \(\d+\) /,
  /^\S+:\d+:\d+: (?:fatal )?error: /,
  /^\S+\(\d+,\d+\): error\b/,
  new RegExp(`^(?:/\\S*/)?[\\w.-]+: (?:.{0,200}: )?(?:${REASONS})\\s*$`, "i"),
  /^'.{1,200}' is not recognized as an internal or external command/,
  /^[A-Z][\w-]+ ?: (?:cannot|access|the term) /i,
  // JSON whose first key is an error.
  /^\{\s*"error"\s*:\s*(?!null\b|false\b|0\b|""|\{\s*\}|\[\s*\])\S/i,
  /^\{\s*"is_?error"\s*:\s*true\b/i,
  /^\{\s*"(?:success|ok)"\s*:\s*false\b/i,
];

const LAST_LINES: readonly RegExp[] = [
  /^(?:npm|pnpm|yarn) (?:err!|error\b)/i,
  /^g?make(?:\[\d+\])?: \*\*\* /,
  /^error: (?:build failed|could not compile|aborting due to)\b/i,
  /^(?:exit status|command failed with exit code) [1-9]\d*\.?$/i,
];

const TRACEBACK = { begins: /^traceback \(most recent call last\):\s*$/im, ends: /^[A-Za-z_][\w.]*(?:: |$)/ };

/**
 * Returns whether the text of a tool result reports an error: by its exit code, else by the form of its first
 * or last line, such as `Error: …`, `Traceback (most recent call last):`, `fatal: …` or `npm ERR! …`.
 */
export function looksLikeError(message: ToolMessage): boolean {
  const text = contentText(message.content);
  const code = exitCodeIn(text);
  if (code !== undefined) return code !== 0;
  const head = text.slice(0, HEAD_CHARS).replaceAll(COLORS, "").trimStart();
  const [first = ""] = head.split("\n", 1);
  if (FIRST_LINES.some((form) => form.test(first.trimEnd()))) return true;
  const tail = text.slice(-TAIL_CHARS).replaceAll(COLORS, "").trimEnd();
  const last = tail.slice(tail.lastIndexOf("\n") + 1);
  return LAST_LINES.some((form) => form.test(last)) ||
    TRACEBACK.begins.test(tail) && TRACEBACK.ends.test(last);
}

/**
 * Returns whether a tool result reports an error: by `failed`, if its protocol or client sets it, else by
 * `isError` (default: {@linkcode looksLikeError}).
 */
export function reportsError(
  message: ToolMessage,
  index: number,
  { isError = looksLikeError }: {
    readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
  } = {},
): boolean {
  return message.failed ?? isError(message, index);
}
