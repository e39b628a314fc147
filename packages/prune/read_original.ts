import { type ContentPart, contentText, type Message } from "@tare/messages";
import { firstWords, meantCall, pairCalls, transcribe } from "@tare/messages/internal";
import { type Archive, isArchiveRef } from "./archive.ts";
import { ANY_PLACEHOLDER, placeholderRefs } from "./placeholder.ts";
import { RECALL_TOOL, type RecallOptions, type RecallRequest, type RecallResult } from "./recall_tool.ts";
import { fitHead } from "./truncate_results.ts";

/** Returns the answer of `recallOriginal()`. */
export async function readOriginal(
  archive: Archive,
  request: RecallRequest,
  { countTokens, limitTokens, visible, supportsImages }:
    & Bounds
    & Pick<RecallOptions, "visible" | "supportsImages">,
): Promise<RecallResult> {
  const { lines, find, offset = 0 } = request;
  const unfit = find === undefined ? undefined : unfitText(find);
  if (unfit) return refuse(unfit);
  const ref = request.ref?.trim().toLowerCase() ?? "";
  if (ref === "") {
    if (find === undefined || lines !== undefined || offset > 0) {
      return refuse(`Cannot recall: ${WITHOUT_REF}`);
    }
    if (visible || archive.refs) {
      return await searchAll(archive, { find, visible: visible?.() ?? [], countTokens, limitTokens });
    }
    return refuse(
      "Cannot search all evicted content: the conversation is unknown. Pass a ref as well.",
    );
  }
  const archived = isArchiveRef(ref) ? await archive.get(ref) : undefined;
  if (archived === undefined) {
    return refuse(
      `Cannot recall '${request.ref}': no original has this reference. Copy the 16 hex digits after 'ref' from ` +
        `an ${ANY_PLACEHOLDER} line of this conversation.`,
    );
  }
  const pictured = readImages(archived);
  if (pictured) {
    const { text, images } = pictured;
    return supportsImages
      ? { content: text, error: false, images }
      : refuse(`Cannot recall it: it is a ${text}, and this model accepts no images.`);
  }
  const messages = readMessages(archived);
  const original = messages?.map(({ text }) => text).join(BETWEEN) ?? archived;
  const range = lines === undefined ? { start: 0, end: original.length } : rangeOf(original, lines);
  if (typeof range === "string") return refuse(range);
  if (offset > 0 && offset >= range.end) {
    return refuse(`Cannot recall from offset ${offset}: the requested part ends at ${range.end}.`);
  }
  const region = { start: Math.max(range.start, offset), end: range.end, countTokens, limitTokens };
  if (find !== undefined) return search(original, { ...region, find });
  const { content, end } = read(original, region);
  const images = supportsImages ? imagesIn(messages ?? [], { start: region.start, end }) : [];
  const first = images.slice(0, MAX_IMAGES);
  const more = images.length - first.length;
  return {
    content: more > 0 ? `${content}\n[${more} more images; recall fewer lines]` : content,
    error: false,
    ...(first.length > 0 && { images: first }),
  };
}

const MAX_IMAGES = 8;

function imagesIn(messages: readonly Transcribed[], { start, end }: Range): string[] {
  let from = 0;
  return messages.flatMap(({ message: { content }, text }) => {
    const overlaps = from < end && from + text.length > start;
    from += text.length + BETWEEN.length;
    if (!overlaps || !Array.isArray(content)) return [];
    return (content as readonly ContentPart[]).flatMap((part) =>
      part.type === "image_url" && part.image_url.url?.startsWith("data:") ? [part.image_url.url] : []
    );
  });
}

function readImages(
  original: string,
): { readonly text: string; readonly images: readonly string[] } | undefined {
  if (
    !original.startsWith('[{"type":"') || !original.includes('{"type":"image_url","image_url":{"url":"data:')
  ) {
    return undefined;
  }
  try {
    const content: readonly ContentPart[] = JSON.parse(original);
    const images = content.flatMap((part) => part.type === "image_url" ? [part.image_url.url] : []);
    return { text: contentText(content), images };
  } catch {
    return undefined;
  }
}

const WITHOUT_REF =
  `the ref is missing. Copy the 16 hex digits after 'ref' from an ${ANY_PLACEHOLDER} line of this conversation, or ` +
  "pass only find to search everything evicted from it.";

const MAX_FIND_CHARS = 200;

function unfitText(find: string): string | undefined {
  if (find === "") return "Cannot find '': the text is empty. Pass a part of the line to find.";
  if (/[\r\n]/.test(find)) return "Cannot find several lines: pass text from one of them.";
  if (find.length <= MAX_FIND_CHARS) return undefined;
  return `Cannot find a text of ${find.length} characters: pass at most ${MAX_FIND_CHARS} of them.`;
}

const BETWEEN = "\n\n";

interface Transcribed {
  readonly message: Message;
  readonly text: string;
}

function readMessages(
  archived: string,
): readonly Transcribed[] | undefined {
  if (!archived.startsWith("{")) return undefined;
  try {
    return archived.split("\n").map((line) => {
      const message = parseMessage(line);
      return { message, text: transcribe(message) };
    });
  } catch {
    return undefined;
  }
}

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool"];

/** @throws {Error} if it is no message. */
function parseMessage(line: string): Message {
  const value = JSON.parse(line);
  if (ROLES.includes(value?.role) && ("content" in value || "tool_calls" in value)) return value;
  throw new TypeError("Cannot read a message: the line contains something else");
}

function refuse(content: string): RecallResult {
  return { content, error: true };
}

interface Range {
  readonly start: number;
  readonly end: number;
}

type Bounds = Required<Pick<RecallOptions, "countTokens" | "limitTokens">>;

type Region = Range & Bounds;

function rangeOf(original: string, requested: string): Range | string {
  const [, from, dash, to] = /^\s*(\d+)\s*(-\s*(\d*))?\s*$/.exec(requested) ?? [];
  const first = Number(from);
  const last = to ? Number(to) : dash === undefined ? first : Infinity;
  if (!(first >= 1 && last >= first)) {
    return `Cannot recall lines '${requested}': a range looks like 120-180, 120- or 120, counted from 1.`;
  }
  let [line, start] = [1, 0];
  for (; line < first; line += 1) {
    start = original.indexOf("\n", start) + 1;
    if (start === 0) return `Cannot recall lines '${requested}': the original has ${line} lines.`;
  }
  let end = start - 1;
  do {
    end = original.indexOf("\n", end + 1);
    line += 1;
  } while (end >= 0 && line <= last);
  return { start, end: end < 0 ? original.length : end };
}

const NOTICE_TOKENS = 80;

function read(
  original: string,
  { start, end, countTokens, limitTokens }: Region,
): { readonly content: string; readonly end: number } {
  const text = original.slice(start, end);
  if (fitHead(text, { maxTokens: limitTokens, countTokens }) === text) return { content: text, end };
  const part = fitHead(text, { maxTokens: limitTokens - NOTICE_TOKENS, countTokens });
  const next = start + part.length;
  const [first, last, all] = [start, next - 1, original.length].map((at) => lineNumber(original, at));
  const notice =
    `[characters ${start} to ${next} of ${original.length}, lines ${first} to ${last} of ${all}; ` +
    `continue with offset ${next}]`;
  return { content: `${part.replace(/\n$/, "")}\n${notice}`, end: next };
}

const LINES_AROUND = 2;

function search(
  original: string,
  { start, end, find, countTokens, limitTokens }: Region & { readonly find: string },
): RecallResult {
  const found: string[] = [];
  let left = limitTokens - NOTICE_TOKENS;
  for (const line of findText(original, { find, start, end, around: LINES_AROUND })) {
    const tokens = countTokens(`${line.text}\n`);
    if (tokens <= left) found.push(line.text);
    else if (line.isFound) {
      found.push(`[there is more; continue with the same find and offset ${line.start}]`);
      break;
    }
    left = tokens <= left ? left - tokens : 0;
  }
  return { content: found.length > 0 ? found.join("\n") : `No line contains '${find}'.`, error: false };
}

const ALL_TOKENS = 2_000;
const LINES_OF_EACH = 3;

async function searchAll(
  archive: Archive,
  { find, visible, countTokens, limitTokens }: Bounds & {
    readonly find: string;
    readonly visible: readonly Message[];
  },
): Promise<RecallResult> {
  const found: string[] = [];
  const originals = new Set<string>();
  let left = Math.min(limitTokens, ALL_TOKENS) - NOTICE_TOKENS;
  let more = 0;
  for await (const { ref, what, text, firstLine } of allThatLeft(visible, { archive, seen: originals })) {
    const lines = [...findText(text, { find, firstLine })];
    if (lines.length === 0) continue;
    const some = lines.slice(0, LINES_OF_EACH).map((line) => line.text);
    const header = `ref ${ref}, ${what}: ${lines.length} of ${text.split("\n").length} lines\n${
      some.join("\n")
    }`;
    left -= countTokens(`${header}\n`);
    if (left >= 0) found.push(header);
    else more++;
  }
  if (more > 0) found.push(`[${more} more earlier ones; find a longer text]`);
  const listed = await archive.refs?.();
  const none = originals.size > 0 || (listed && listed.length > 0)
    ? `No evicted content contains '${find}'.`
    : listed
    ? "Nothing was evicted from this conversation."
    : "No placeholder is visible: give the ref of an original.";
  return { content: found.length > 0 ? found.join("\n") : none, error: false };
}

interface Left {
  readonly ref: string;
  readonly what: string;
  readonly text: string;
  readonly firstLine: number;
}

interface Reading {
  readonly archive: Archive;
  readonly seen: Set<string>;
}

/** Newest first: the originals of visible placeholders, then the others. */
async function* allThatLeft(messages: readonly Message[], reading: Reading): AsyncGenerator<Left> {
  const { archive, seen } = reading;
  yield* leftOf(messages, reading);
  for (const ref of (await archive.refs?.() ?? []).toReversed()) {
    if (!seen.has(ref)) yield* originalsOf(ref, "an earlier result", reading);
  }
}

async function* leftOf(messages: readonly Message[], reading: Reading): AsyncGenerator<Left> {
  const calls = callsOf(messages);
  for (const message of messages.toReversed()) {
    if (isRecall(message, calls)) continue;
    for (const ref of placeholderRefs(contentText(message.content)).toReversed()) {
      if (!reading.seen.has(ref)) yield* originalsOf(ref, describe(message, calls), reading);
    }
  }
}

/**
 * Yields the text under a reference, or each archived message, newest first, with the originals of its
 * placeholders.
 */
async function* originalsOf(ref: string, what: string, reading: Reading): AsyncGenerator<Left> {
  const archived = await reading.archive.get(ref);
  if (archived === undefined) return;
  reading.seen.add(ref);
  const inside = readMessages(archived);
  if (!inside) {
    yield { ref, what, text: archived, firstLine: 1 };
    return;
  }
  const left = inside.map(({ message }) => message);
  const calls = callsOf(left);
  const pieces: Left[] = [];
  let firstLine = 1;
  for (const { message, text } of inside) {
    if (!isRecall(message, calls)) pieces.push({ ref, what: describe(message, calls), text, firstLine });
    firstLine += `${text}${BETWEEN}`.split("\n").length - 1;
  }
  yield* pieces.toReversed();
  yield* leftOf(left, reading);
}

type Calls = ReadonlyMap<Message, ReturnType<typeof meantCall>>;

function callsOf(messages: readonly Message[]): Calls {
  return new Map(
    pairCalls(messages).flatMap(({ call, answer }) => answer ? [[answer.message, meantCall(call)]] : []),
  );
}

function isRecall(message: Message, calls: Calls): boolean {
  return calls.get(message)?.name === RECALL_TOOL.function.name;
}

function describe(message: Message, calls: Calls): string {
  if (message.role !== "tool") return `${message.role} message`;
  const call = calls.get(message);
  return call ? firstWords(`${call.name} ${call.arguments}`) : "a result";
}

function lineNumber(text: string, position: number): number {
  let number = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < position; at = text.indexOf("\n", at + 1)) number += 1;
  return number;
}

interface FoundLine {
  readonly text: string;
  readonly isFound: boolean;
  /** Position from which the same search returns this line and all after it. */
  readonly start: number;
}

const LONG_LINE_CHARS = 500;
const EXCERPT_CHARS = 300;
const MARGIN_CHARS = 100;

/**
 * Yields the lines that contain a text, ignoring case, from `start` to the end of the line at `end`, with
 * `around` context lines each. As in grep's output, `--` separates lines that aren't adjacent.
 */
function* findText(text: string, options: {
  readonly find: string;
  readonly start?: number;
  readonly end?: number;
  readonly around?: number;
  readonly firstLine?: number;
}): Generator<FoundLine> {
  const { find, start = 0, end = text.length, around = 0, firstLine = 1 } = options;
  const folded = fold(text);
  const wanted = fold(find);
  let at = folded.indexOf(wanted, start);
  let before: FoundLine[] = [];
  let afterBytes = 0;
  let [hasFound, isGap] = [false, false];
  let lineStart = 0;
  for (let number = firstLine; lineStart <= end && (at >= 0 || afterBytes > 0); number++) {
    const newline = text.indexOf("\n", lineStart);
    const lineEnd = newline < 0 ? text.length : newline;
    const line = text.slice(lineStart, lineEnd);
    if (at >= 0 && at < Math.min(lineEnd, end)) {
      if (isGap) yield { text: "--", isFound: false, start: lineStart };
      yield* before;
      if (line.length <= LONG_LINE_CHARS) {
        yield { text: `${number}:${line}`, isFound: true, start: lineStart };
        at = folded.indexOf(wanted, lineEnd);
      }
      while (at >= 0 && at < lineEnd) {
        const from = Math.max(lineStart, at - MARGIN_CHARS);
        const to = Math.min(lineEnd, from + EXCERPT_CHARS);
        const excerpt = text.slice(from, to).toWellFormed();
        yield { text: `${number}, offset ${from}: … ${excerpt} …`, isFound: true, start: at };
        at = folded.indexOf(wanted, Math.max(at + 1, to - wanted.length + 1));
      }
      [before, afterBytes, hasFound, isGap] = [[], around, true, false];
    } else {
      const context = { text: `${number}-${shorten(line)}`, isFound: false, start: lineStart };
      if (afterBytes > 0) {
        yield context;
        afterBytes--;
      } else if (around > 0) {
        before.push(context);
        if (before.length > around) isGap = before.shift() !== undefined && hasFound;
      }
    }
    if (newline < 0) return;
    lineStart = newline + 1;
  }
}

function shorten(line: string): string {
  return line.length <= LONG_LINE_CHARS ? line : `${line.slice(0, EXCERPT_CHARS).toWellFormed()} …`;
}

function fold(text: string): string {
  // Only İ changes length in lower case, and only Σ has two lower-case forms.
  return text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ");
}
