import { type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, countMessageTokens, MESSAGE_OVERHEAD_TOKENS } from "@tare/messages/internal";
import { archiveText, bytesFromText } from "./archive.ts";
import { formatPlaceholder, type Placeholder, type PlaceholderOptions } from "./placeholder.ts";
import {
  ELIDING,
  type Elision,
  type PairedResult,
  pairResults,
  type PruneOptions,
  type PruneResult,
  resultText,
  settleElisions,
  traitsOf,
} from "./prune_results.ts";

/**
 * Truncates the tool results that were not sent yet (those behind the last assistant message): one that is over the
 * limit is archived whole and gives way to its head, a placeholder and its tail. Done before every request, it
 * never changes what a request has already held, so it costs nothing in a provider's cache. Results of tools whose
 * stance is `keep`, and results that hold more than text, stay. If one can't be archived, nothing changes.
 *
 * @example
 * ```ts
 * import { assert, assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { truncateResults, memoryArchive } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Show the log." },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "a line of the log\n".repeat(10_000) },
 * ];
 * const truncated = await truncateResults(messages, { archive: memoryArchive(), countTokens: estimateTokens });
 * if (truncated.failure) throw truncated.failure;
 * assertEquals(truncated.elisions.length, 1);
 * assert(truncated.tokensAfter < 8100);
 * ```
 */
export async function truncateResults<M extends Message>(
  messages: readonly M[],
  options: TruncateOptions,
): Promise<PruneResult<M>> {
  checkGiven("truncateResults()", { messages, options }, { messages: "messages", options: ELIDING });
  const { countTokens } = options;
  return await settleElisions(messages, { elisions: truncate(messages, options), countTokens });
}

/** Options of {@linkcode truncateResults}. */
export interface TruncateOptions extends Pick<PruneOptions, "archive" | "countTokens" | "tools" | "recall"> {
  /** Longest text of a result, in tokens. Default 8,000. */
  readonly limitTokens?: number | undefined;
}

async function truncate(messages: readonly Message[], options: TruncateOptions): Promise<Elision[]> {
  const { archive, countTokens = estimateTokens, limitTokens = TRUNCATE_TOKENS, recall = false } = options;
  const elisions: Elision[] = [];
  for (const { index, message, call } of newResults(messages)) {
    const { tool } = call;
    const { stance = "once" } = traitsOf(tool, options.tools);
    const tokensBefore = countMessageTokens(message, countTokens);
    const original = resultText(message);
    if (stance === "keep" || original === undefined) continue;
    if (tokensBefore - MESSAGE_OVERHEAD_TOKENS <= limitTokens) continue;
    const ref = await archiveText(original, archive, `a result of ${tool}`);
    const text = truncateText(original, { tool, ref, countTokens, limitTokens, recall, stance });
    const tokensAfter = countMessageTokens({ ...message, content: text }, countTokens);
    const toolCallId = message.tool_call_id;
    elisions.push({ index, toolCallId, tool, ref, text, tokensBefore, tokensAfter, reason: "truncated" });
  }
  return elisions;
}

/** The results that no request held yet. */
function newResults(messages: readonly Message[]): PairedResult[] {
  const from = Math.max(0, messages.findLastIndex((message) => message.role === "assistant"));
  return pairResults(messages.slice(from)).map((one) => ({ ...one, index: from + one.index }));
}

/** Longest result that enters the prompt whole, in tokens. */
const TRUNCATE_TOKENS = 8_000;

/** Options of {@linkcode truncateText}. */
export interface TruncateTextOptions extends PlaceholderOptions {
  /** Counts tokens. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Longest text that stays whole, and longest text returned, in tokens. Default 8,000. */
  readonly limitTokens?: number | undefined;
  /** Name of the tool that returned the text. Default: none, it is part of a message. */
  readonly tool?: string;
  /** Archive reference of the whole text. */
  readonly ref: string;
}

/**
 * Returns a text that is too long as its head, a placeholder line and its tail, cut at line breaks where there are any
 * and never within a character, nor within binary data such as base64, which is whole or left out. A text within the
 * limit is returned as it is. A limit that has no room for more gives the placeholder alone.
 */
export function truncateText(text: string, options: TruncateTextOptions): string {
  const { countTokens = estimateTokens, limitTokens = TRUNCATE_TOKENS, tool, ref } = options;
  if (countTokens(text) <= limitTokens) return text;
  const bytes = bytesFromText(text).length;
  const middle: Placeholder = tool === undefined
    ? { of: "text", bytes, ref }
    : { of: "middle", tool, bytes, ref };
  const line = formatPlaceholder(middle, options);
  const binaries = binariesIn(text);
  // Half for the head, half for the tail. Where the pieces meet, joining them may add a token or two.
  for (
    let maxTokens = (limitTokens - countTokens(line)) / 2;
    maxTokens >= 1;
    maxTokens = maxTokens * 0.95 - 1
  ) {
    const head = withoutBinaryEnd(fitHead(text, { maxTokens, countTokens }), binaries);
    const tail = withoutBinaryStart(
      fitTail(text.slice(head.length), { maxTokens, countTokens }),
      text,
      binaries,
    );
    // A head that begins like a whole placeholder would be taken for one.
    if (head === "") break;
    const truncated = `${head.replace(/\n$/, "")}\n${line}\n${tail}`;
    if (countTokens(truncated) <= limitTokens) return truncated;
  }
  return tool === undefined ? line : formatPlaceholder({ of: "result", tool, bytes, ref }, options);
}

/** Where a text holds binary data. */
type Binaries = readonly { readonly start: number; readonly end: number }[];

/** A text's head without the binary data within which it ends. */
function withoutBinaryEnd(head: string, binaries: Binaries): string {
  const cut = binaries.find(({ start, end }) => start < head.length && head.length < end);
  return cut ? head.slice(0, cut.start) : head;
}

/** A text's tail without the binary data within which it begins. */
function withoutBinaryStart(tail: string, { length }: string, binaries: Binaries): string {
  const from = length - tail.length;
  const cut = binaries.find(({ start, end }) => start < from && from < end);
  return cut ? tail.slice(cut.end - from) : tail;
}

/** How much of a text to take. */
interface FitOptions {
  readonly maxTokens: number;
  readonly countTokens: CountTokens;
}

/** Texts are cut with few tries from above: hardly any has more characters than this for each token. */
const CHARS_PER_TOKEN = 8;

/** Returns roughly `maxTokens` of a text's start, preferably whole lines, without splitting a surrogate pair. */
export function fitHead(text: string, options: FitOptions): string {
  const chars = fitChars((chars) => text.slice(0, chars), text.length, options);
  if (chars === text.length) return text;
  const lineEnd = text.lastIndexOf("\n", chars - 1) + 1;
  if (lineEnd >= chars * 0.75) return text.slice(0, lineEnd);
  return text.slice(0, splitsPair(text, chars) ? chars - 1 : chars);
}

/** The same of a text's end; it prefers to begin behind a line break. */
function fitTail(text: string, options: FitOptions): string {
  const chars = fitChars((chars) => text.slice(text.length - chars), text.length, options);
  if (chars === text.length) return text;
  const start = text.length - chars;
  const lineStart = text.indexOf("\n", start - 1) + 1;
  if (lineStart > 0 && text.length - lineStart >= chars * 0.75) return text.slice(lineStart);
  return text.slice(splitsPair(text, start) ? start + 1 : start);
}

function fitChars(
  piece: (chars: number) => string,
  length: number,
  { maxTokens, countTokens }: FitOptions,
): number {
  let chars = Math.max(0, Math.min(length, maxTokens * CHARS_PER_TOKEN));
  while (chars > 0) {
    const tokens = countTokens(piece(chars));
    if (tokens <= maxTokens) break;
    chars = Math.floor(chars * 0.97 * maxTokens / tokens);
  }
  return chars;
}

function splitsPair(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff;
}

/** Where a text holds binary data, with the front of its data URL: long base64 that is quoted, or mixed like no word is. */
function binariesIn(text: string): Binaries {
  return [...text.matchAll(/(["']?)(data:[^,\s"']{0,99},)?(?<![\w+/=-])([\w+/=-]{512,})(["']?)/g)].flatMap(
    (found) => {
      const [all, before, front, run = "", behind] = found;
      const isData = (before && behind) || front ||
        (/[A-Z]/.test(run) && /[a-z]/.test(run) && /\d/.test(run));
      return isData ? { start: found.index, end: found.index + all.length } : [];
    },
  );
}
