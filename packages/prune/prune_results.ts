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
 * Replaces every old tool result that may go (see {@linkcode selectElisions}) with a one-line placeholder, after
 * archiving its original. Pruning the outcome again changes nothing and archives nothing. An original that can't be
 * archived is told in the result, and then nothing changes.
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

/** Originals could not be archived, so that nothing left the messages. */
export interface PruneFailure<M extends Message> {
  readonly failure: Error;
  /** The very array that was passed: what to send to continue nevertheless. */
  readonly unchanged: readonly M[];
}

/** Pruned messages, or why nothing could be archived: `failure` must be checked first. */
export type PruneResult<M extends Message> = PruneFailure<M> | {
  readonly failure?: undefined;
  /** The messages; the very array that was passed if nothing changed. */
  readonly messages: readonly M[];
  /** What changed, to be stored and applied again (see {@linkcode applyElisions}). */
  readonly elisions: readonly Elision[];
  /** Tokens of all the messages before. */
  readonly tokensBefore: number;
  /** Tokens of all the messages after. */
  readonly tokensAfter: number;
};

/** Applies elisions as soon as their originals are archived, or says why they could not be. */
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

/** What pruning uses of each tool, by name. */
export type ToolTraits = Readonly<Record<string, Pick<Tool, "stance" | "reads" | "writes" | "replays">>>;

/** Options of {@linkcode pruneResults}. */
export interface PruneOptions {
  /** Stores the originals. */
  readonly archive: Archive;
  /** Counts tokens; the count of each message object is remembered. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** The tools by name. A tool that isn't there (any longer) counts as `once`. Default: none. */
  readonly tools?: ToolTraits | undefined;
  /** Whether the recall tool is offered to the model, so that placeholders may point to it. Default false. */
  readonly recall?: boolean | undefined;
  /** The model's context window, in tokens. At most half of it is protected. Default: unknown, no such limit. */
  readonly windowTokens?: number | undefined;
  /** Tokens at the end of the messages in which nothing is elided. Default 16,384. */
  readonly protectTokens?: number | undefined;
  /** Results with fewer UTF-8 bytes stay. Default 1,024. */
  readonly minBytes?: number | undefined;
  /**
   * Whether a result reports an error of which neither a protocol nor a client states whether its call failed; such
   * results stay. Default: by its exit code, or else by the form of its first and last line.
   */
  readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
}

/** What may be elided, and how its placeholder reads. */
export type SelectOptions = Omit<PruneOptions, "archive">;

/**
 * Chooses the tool results that may leave the prompt now: superseded ones first, then the old ones, each oldest
 * first. A caller that needs only some room takes as many as it wants from the front.
 *
 * A result may go if it stands before the protected tail, holds nothing but text, is long enough, at least
 * halves its tokens by going, and the model has seen it (an assistant message follows). It stays if its tool's
 * stance is `keep`, if it reports an error, and if it shows an original that was recalled twice. It is *superseded*
 * if the same tool was called with the same arguments again later, or what it read was written later, unless
 * that later call failed. Of a tool that `replays`, the last line of a result says what its calls have written.
 *
 * Takes time proportional to the number of messages, once their tokens are counted. `tokensAfter` is an estimate, within
 * a few tokens.
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
    // With as many digits for its size, so that what goes doesn't depend on what else does.
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
  // A model may call a tool by any name, `constructor` included.
  return (Object.hasOwn(tools, tool) ? tools[tool] : undefined) ?? {};
}

/** Index of the first message of the protected tail. */
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
    const read = resource(call, reads);
    if (keys.has(call.key) || (read !== undefined && written.has(read))) superseded.add(index);
    // What its calls have done stands, however it ended itself.
    for (const path of replays ? pathsWritten(message) : []) written.add(plainPath(path));
    if (reportsError(message, index, options)) continue;
    keys.add(call.key);
    const target = resource(call, writes);
    if (target !== undefined) written.add(target);
  }
  return superseded;
}

function resource(call: ParsedCall, argument: string | undefined): string | undefined {
  const path = argument === undefined ? undefined : call.args.get(argument);
  return path === undefined ? undefined : plainPath(path);
}

function plainPath(path: string): string {
  return path.replace(/^(\.\/+)+/, "");
}

/** What the loop says behind a result that its calls have written. */
function pathsWritten(message: ToolMessage): readonly string[] {
  return /\n\[Written: (.*)\]$/.exec(resultText(message) ?? "")?.[1]?.split(", ") ?? [];
}

/** References that the visible calls recalled at least twice. */
function recalledTwice(results: readonly PairedResult[]): string[] {
  const counts = new Map<string, number>();
  for (const { call } of results) {
    const ref = recalledRef(call);
    if (ref !== undefined) counts.set(ref, (counts.get(ref) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count >= 2).map(([ref]) => ref);
}

function recalledRef(call: ParsedCall): string | undefined {
  return call.tool === RECALL_TOOL.function.name ? call.args.get("ref") : undefined;
}

function hasBytes(text: string, bytes: number): boolean {
  // A UTF-16 code unit takes one to three bytes, so most texts need not be encoded to know.
  if (text.length >= bytes) return true;
  return text.length * 3 >= bytes && bytesFromText(text).length >= bytes;
}

/**
 * One tool result whose text gives way to a shorter one. Plain data: it can be stored, and applied again to the
 * same history gives the same bytes. Its original stands in the archive.
 */
export interface Elision {
  /** Position of the result in the messages. */
  readonly index: number;
  /** Its `tool_call_id`, as a check that the index still means the same message. */
  readonly toolCallId: string;
  /** Name of the tool that gave it. */
  readonly tool: string;
  /** Archive reference of the original. */
  readonly ref: string;
  /** What stands in the message instead. */
  readonly text: string;
  /** Tokens of the message before. */
  readonly tokensBefore: number;
  /** Tokens of the message after. */
  readonly tokensAfter: number;
  /**
   * Why it left the prompt: `superseded` by a later result, `old` (behind the protected tail), or `truncated`, cut to
   * head and tail because it was too long when it arrived.
   */
  readonly reason: "superseded" | "old" | "truncated";
}

/** A result that could leave, and what of it would stay. */
export type ElisionCandidate = Omit<Elision, "ref" | "text">;

/**
 * The messages with each elision's text in place of the result's content; everything else is the same object. Meant
 * to be applied to a growing history again and again: an elided message is made once and then reused. Of several
 * elisions of the same message the last counts.
 *
 * @throws {RangeError} if an elision points to anything but the tool result that it was made for.
 *
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

/** Options that pruning, truncating and summarising share, so that one object serves all of them. */
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
  "summariseAt?": "share",
  "countPrompt?": "function",
  "summarise?": "function",
  "signal?": "object",
  "keepTokens?": "count",
  "activeTurnStart?": "number",
};

/** The same of what puts originals into an archive. */
export const ELIDING: Readonly<Record<string, Needed>> = {
  ...SELECTING,
  archive: { put: "function", get: "function" },
};

/** Originals that are archived at the same time: each may be an open file. */
const PARALLEL_PUTS = 16;

/** What archives results that leave, and how their placeholders read. */
export type ElideOptions = Pick<PruneOptions, "archive" | "countTokens" | "tools" | "recall">;

/**
 * Archives the originals of the chosen results, then returns the elisions that replace them. A result that was
 * truncated keeps the reference of its whole original.
 *
 * @throws {Error} if a single one can't be archived. Then none is elided, and what was archived does no harm.
 *
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

/** The whole original of a text that was truncated on arrival, if the archive confirms that it is one. */
async function findWhole(
  text: string,
  archive: Archive,
): Promise<{ readonly ref: string; readonly bytes: number } | undefined> {
  for (const { ref, bytes, head, tail } of splitTruncated(text)) {
    // An original that can't be read is no reason to stop: then the text at hand is archived.
    const whole = await archive.get(ref).catch(() => undefined);
    if (whole !== undefined && whole.startsWith(head) && whole.endsWith(tail)) return { ref, bytes };
  }
  return undefined;
}

/** A tool call as pruning sees it. */
interface ParsedCall {
  /** Name of the tool. */
  readonly tool: string;
  /** The same for calls with the same arguments, whatever the order of keys and the spacing. */
  readonly key: string;
  /** The arguments that are short texts: paths, references. */
  readonly args: ReadonlyMap<string, string>;
}

/** A tool message and the call that it answers. */
export interface PairedResult {
  readonly index: number;
  readonly message: ToolMessage;
  readonly call: ParsedCall;
}

/** The results whose calls are known, in order, each with its call (see `pairCalls`). */
export function pairResults(messages: readonly Message[]): PairedResult[] {
  return pairCalls(messages)
    .flatMap(({ call, answer }) =>
      answer ? [{ index: answer.at, message: answer.message, call: readCall(call) }] : []
    )
    .sort((a, b) => a.index - b.index);
}

/** The text of a result; `undefined` if it has to stay, or holds anything but text, which pruning leaves alone. */
export function resultText({ content, keep }: ToolMessage): string | undefined {
  if (keep) return undefined;
  if (typeof content === "string") return content;
  return content.every((part) => part.type === "text") ? contentText(content) : undefined;
}

/**
 * What the archive holds of a result: its text, or of one that shows pictures too its parts as JSON, which a
 * recall shows. `undefined` if it has to stay, or holds anything else. Of a tool that isn't known nobody
 * knows whether a recall could show a picture, so that only text leaves.
 */
export function resultOriginal(message: ToolMessage, isKnown = true): string | undefined {
  const { content, keep } = message;
  const holds = isKnown && !keep && typeof content !== "string" &&
    content.every((part) =>
      part.type === "text" || (part.type === "image_url" && part.image_url.url?.startsWith("data:"))
    );
  return resultText(message) ?? (holds ? JSON.stringify(content) : undefined);
}

/** Arguments longer than this are kept and compared as the model wrote them: nobody reads them as a path. */
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
    const args = new Map(Object.entries(value ?? {}).filter(isShortText));
    return { tool, key: text.length > SHORT_CHARS ? text : canonicalJson(value), args };
  } catch {
    // Arguments that are no JSON, or nested too deep to walk, are equal only to the same text.
    return { tool, key: text, args: new Map() };
  }
}

function isShortText(entry: [string, unknown]): entry is [string, string] {
  return typeof entry[1] === "string" && entry[1].length <= SHORT_CHARS;
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, inner) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1));
  });
}

/** UTF-16 code units at either end of a text that are inspected. */
const HEAD_CHARS = 1_000;
const TAIL_CHARS = 1_000;

/** Codes by which terminals color. */
// deno-lint-ignore no-control-regex
const COLORS = /\x1b\[[\d;]*m/g;

/** Why a program could not do what it was called for, behind its name and what it was about. */
const REASONS =
  "no such file or directory|permission denied|command not found|not found|is a directory|not a directory|" +
  "operation not permitted|connection (?:refused|timed out)|cannot [a-z]+ .+";

const FIRST_LINES: readonly RegExp[] = [
  // `Error: …`, `error[E0308]: …`, `error TS2304: …`, but no count, and no key of a file.
  /^error(?:\s*[[(][^\])]{1,40}[\])]|\s+[A-Z]{1,8}\d+)?:\s+(?!(?:0|none|null|false|undefined|string|boolean)\b)\S/i,
  // Sentences, as agents and frameworks begin them.
  /^error (?:executing|running|reading|writing|calling|invoking|processing|parsing|opening|loading|while|during|occurred|code:? \S)/i,
  /^an? (?:unexpected |internal )?(?:error|exception) (?:occurred|happened|was thrown)\b/i,
  /^cannot (?!be\b)[a-z]+\b/i,
  /^(?:failed|unable) to [a-z]+\b/i,
  /^could not [a-z]+\b/i,
  /^(?:file|directory|path|tool|command) (?:not found|does not exist)\b/i,
  /^<tool_use_error>/,
  /^(?:mcp|tool|execution|runtime|fatal) error\b.{0,40}:\s*\S/i,
  /^request failed with status\b/i,
  // Exceptions: `TypeError: …`, `java.io.IOException: …`.
  /^(?:(?:uncaught|unhandled)\b.{0,30}\s)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\s*[[(][^\])]{1,40}[\])])?:\s*\S/,
  /^(?:uncaught|unhandled) .{0,40}(?:error|exception|rejection)\b/i,
  /^traceback \(most recent call last\):\s*$/i,
  /^exception in thread "/i,
  /^panic: \S/,
  /^thread '.*' (?:\(\d+\) )?panicked at\b/,
  /^segmentation fault\b/i,
  // Programs: git, npm, make, apt, curl, compilers, shells.
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
  // JSON that holds nothing before its error.
  /^\{\s*"error"\s*:\s*(?!null\b|false\b|0\b|""|\{\s*\}|\[\s*\])\S/i,
  /^\{\s*"is_?error"\s*:\s*true\b/i,
  /^\{\s*"(?:success|ok)"\s*:\s*false\b/i,
];

/** Last lines with which a program ends that has failed. */
const LAST_LINES: readonly RegExp[] = [
  /^(?:npm|pnpm|yarn) (?:err!|error\b)/i,
  /^g?make(?:\[\d+\])?: \*\*\* /,
  /^error: (?:build failed|could not compile|aborting due to)\b/i,
  /^(?:exit status|command failed with exit code) [1-9]\d*\.?$/i,
];

const TRACEBACK = { begins: /^traceback \(most recent call last\):\s*$/im, ends: /^[A-Za-z_][\w.]*(?:: |$)/ };

/**
 * Returns whether the text of a tool result reports an error: by the exit code in it, or if there is none by the form of
 * its first or last line, such as `Error: …`, `TypeError: …`, `Traceback (most recent call last):`, `fatal: …` or
 * `npm ERR! …`. Words alone are no error: a text that begins with "Error handling" is a text.
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
 * Returns whether a tool result reports an error: by `failed`, where its protocol or client states it; else by what
 * `isError` returns, which is {@linkcode looksLikeError} by default.
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
