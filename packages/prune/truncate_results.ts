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
 * Truncates the tool results after the last assistant message: a result over the limit is archived and
 * replaced by its head, a placeholder and its tail. Called before every request, it never changes what has
 * been sent, so that caches stay valid. Results of tools with the stance `keep`, or with other parts than
 * text, are retained. If archiving fails, nothing changes.
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
  /** Maximum length of a result, in tokens. Default: 8,000. */
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

function newResults(messages: readonly Message[]): PairedResult[] {
  const from = Math.max(0, messages.findLastIndex((message) => message.role === "assistant"));
  return pairResults(messages.slice(from)).map((one) => ({ ...one, index: from + one.index }));
}

const TRUNCATE_TOKENS = 8_000;

/** Options of {@linkcode truncateText}. */
export interface TruncateTextOptions extends PlaceholderOptions {
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Maximum length of the text returned, in tokens; shorter texts are unchanged. Default: 8,000. */
  readonly limitTokens?: number | undefined;
  /** Name of the tool that returned the text. Default: none, the text is part of a message. */
  readonly tool?: string;
  readonly ref: string;
}

/**
 * Returns the head of a long text, a placeholder line and its tail, preferably cut at line breaks, never
 * within a character or binary data such as base64. Shorter texts are unchanged. If the limit is too low,
 * returns only the placeholder.
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
    // A head that begins like a placeholder would be parsed as one.
    if (head === "") break;
    const truncated = `${head.replace(/\n$/, "")}\n${line}\n${tail}`;
    if (countTokens(truncated) <= limitTokens) return truncated;
  }
  return tool === undefined ? line : formatPlaceholder({ of: "result", tool, bytes, ref }, options);
}

type Binaries = readonly { readonly start: number; readonly end: number }[];

function withoutBinaryEnd(head: string, binaries: Binaries): string {
  const cut = binaries.find(({ start, end }) => start < head.length && head.length < end);
  return cut ? head.slice(0, cut.start) : head;
}

function withoutBinaryStart(tail: string, { length }: string, binaries: Binaries): string {
  const from = length - tail.length;
  const cut = binaries.find(({ start, end }) => start < from && from < end);
  return cut ? tail.slice(cut.end - from) : tail;
}

interface FitOptions {
  readonly maxTokens: number;
  readonly countTokens: CountTokens;
}

const CHARS_PER_TOKEN = 8;

/**
 * Returns about `maxTokens` of the start of a text, preferably whole lines, without splitting a surrogate
 * pair.
 */
export function fitHead(text: string, options: FitOptions): string {
  const chars = fitChars((chars) => text.slice(0, chars), text.length, options);
  if (chars === text.length) return text;
  const lineEnd = text.lastIndexOf("\n", chars - 1) + 1;
  if (lineEnd >= chars * 0.75) return text.slice(0, lineEnd);
  return text.slice(0, splitsPair(text, chars) ? chars - 1 : chars);
}

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

/**
 * Returns the ranges of binary data, including the prefix of its data URL: long base64 that is quoted, or
 * mixed as no word is.
 */
function binariesIn(text: string): Binaries {
  return [...text.matchAll(/(["']?)(data:[^,\s"']{0,99},)?(?<![\w+/=-])([\w+/=-]{512,})(["']?)/g)].flatMap(
    (found) => {
      const [all, before, front, run = "", after] = found;
      const isData = (before && after) || front ||
        (/[A-Z]/.test(run) && /[a-z]/.test(run) && /\d/.test(run));
      return isData ? { start: found.index, end: found.index + all.length } : [];
    },
  );
}
