import {
  arrayItems,
  editJson,
  isListAt,
  isRecord,
  jsonBytes,
  type JsonRecord,
  objectFields,
  readJsonAt,
} from "../json.ts";
import type { ArrangedPrompt, ItemPart, WireRequest, WrittenItem } from "../protocol.ts";
import { readField } from "../request.ts";

/** Most marks that a request may have. */
export const MAX_CACHE_MARKS = 4;

/** So many blocks the provider looks back from a mark for what it has cached. */
export const LOOK_BACK_BLOCKS = 20;

/** How long a prompt is cached where no other time is asked for, in milliseconds since the last use. */
export const SHORT_TTL_MS = 300_000;

const HOUR_MS = 3_600_000;

/**
 * The marks of a request, places up to which it asks its provider to cache the prompt, in the order of the prompt.
 */
export function readCacheMarks(request: WireRequest): {
  /** Whether it stands with a tool or with a message. */
  readonly of: "tool" | "message";
  /** Which of the tools in front of the prompt, or of the messages of all items. */
  readonly at: number;
  /** For how long, in milliseconds since the last use. */
  readonly ttlMs: number;
}[] {
  const { tools = [], items } = request;
  const marks: ReturnType<typeof readCacheMarks> = [];
  for (const [at, { bytes }] of tools.filter(({ inFront }) => inFront).entries()) {
    const tool = readJsonAt(bytes);
    marks.push(...ttlsOf([tool]).map((ttlMs) => ({ of: "tool" as const, at, ttlMs })));
  }
  let at = 0;
  for (const { parts } of items) {
    for (const { mark } of parts) {
      if (mark !== undefined) marks.push({ of: "message", at, ttlMs: ttlOf(JSON.parse(mark)) });
      at++;
    }
  }
  const whole = readField(request, "cache_control");
  if (isRecord(whole)) marks.push({ of: "message", at: at - 1, ttlMs: ttlOf(whole) });
  return marks;
}

function ttlsOf(values: unknown): number[] {
  if (!Array.isArray(values)) return [];
  return values.flatMap((value) =>
    isRecord(value) && isRecord(value.cache_control) ? [ttlOf(value.cache_control)] : []
  );
}

function ttlOf(mark: unknown): number {
  return isRecord(mark) && mark.ttl === "1h" ? HOUR_MS : SHORT_TTL_MS;
}

/**
 * The items of a changed list with the marks of the provider's cache in their places: one whose block left stands with
 * the nearest block in front. If the client marks its prompts, or is to be helped to, and has marks left, more stand where they save most: at the
 * end of a conversation that goes on, where the client marks nothing behind the last reply; behind what was added to the
 * client's list; in front of what this request changes, so that it is read from the cache up to there, or where the
 * request before ended, if the provider wouldn't find that from the end; behind the last change, which is what the next
 * one leaves as it is. A request from which none continues gives its last mark away for that, if all are taken. `ends` tells
 * behind how many messages marks were put.
 *
 * A mark that is added asks for as long as the next one of the client's behind it, since none may ask for longer than one
 * in front; behind all of them for as long as the last of these among the messages, else for as short as can be.
 *
 * Answers to recalls join the results behind them: apart, a model learns not to call several tools at once.
 */
export function arrangeItems(
  request: WireRequest,
  written: readonly WrittenItem[],
  prompt: ArrangedPrompt,
): { readonly items: Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] } {
  const list = written.map(({ bytes }) => bytes);
  const ends: number[] = [];
  /** Gives a mark to the nearest block that can have one, and says whether it had none. */
  const put = ({ mark, at, blocks }: Placed): boolean => {
    for (let place = at; place >= 0; place--) {
      const bytes = list[place];
      const marked = bytes && withMark(bytes, mark, place === at ? blocks : undefined);
      if (!marked) continue;
      list[place] = marked;
      ends.push(place === at && blocks !== undefined ? endBefore(written, at) + blocks : written[place]!.end);
      return marked !== bytes;
    }
    return false;
  };
  findLost(request, written).forEach(put);
  const marks = readCacheMarks(request);
  const heads = request.items.filter(({ bytes }) => !bytes).flatMap(({ parts }) => parts).length;
  const own = marks.filter(({ of, at }) => of === "message" && at >= heads);
  const marksOwn = marks.length > 0 || prompt.completesMarks === "any";
  const known = new Set(request.items);
  const newest = request.items.at(-1);
  const last = written.findIndex(({ item }) => item === newest);
  const mark = marksOf(newest?.parts ?? []).at(-1);
  const bytes = list[last];
  let free = marksOwn ? MAX_CACHE_MARKS - marks.length : 0;
  const lacksMark = marksOwn && free < (prompt.kept === undefined ? 1 : 2);
  // The client marks the end, which is ours while a model recalls: where marks lack for that and for what is changed in front,
  // its own goes on to there.
  if (lacksMark && mark !== undefined && bytes && last < written.length - 1) {
    list[last] = unmarked(bytes);
    put({ mark, at: written.length - 1 });
  }
  // At the end of a request from which none continues a mark serves nothing, if the cache holds what stands in front.
  if (prompt.isLast && prompt.kept !== undefined && free < 1 && mark !== undefined && bytes && marksOwn) {
    list[last] = unmarked(bytes);
    free++;
  }
  for (const { at, blocks } of findUseful(request, written, prompt)) {
    const mark = written.slice(at).flatMap(({ item }) => marksOf(item?.parts ?? []))[0] ?? writeMark(own);
    if (free > 0 && put({ mark, at, blocks })) free--;
  }
  for (const [at, one] of written.entries()) {
    const [bytes, next] = [list[at], list[at + 1]];
    const isAnswers = one.item && !known.has(one.item) && beginsWithResult(one);
    if (!bytes || !next || !isAnswers || !beginsWithResult(written[at + 1])) continue;
    list[at + 1] = joined(bytes, next);
    list[at] = undefined;
  }
  return { items: list.flatMap((bytes) => bytes ?? []), ends };
}

/** Behind how many of the messages that are seen the client's marks stand; 0 is behind the tools. */
export function findMarkedEnds(request: WireRequest, written: readonly WrittenItem[]): number[] {
  const { tools = [] } = request;
  const isInTools = tools.some(({ bytes, inFront }) => inFront && ttlsOf([readJsonAt(bytes)]).length > 0);
  const ends = isInTools ? [0] : [];
  for (const [at, { item, bytes, seen }] of written.entries()) {
    if (!item || (item.bytes && !bytes)) continue;
    let place = endBefore(written, at);
    for (const [index, part] of item.parts.entries()) {
      const shown = seen[index];
      if (shown) place++;
      if (part.mark !== undefined && shown && (shown === part.message || !part.holdsMark)) ends.push(place);
    }
  }
  if (isRecord(readField(request, "cache_control"))) ends.push(written.at(-1)?.end ?? 0);
  return ends;
}

function endBefore(written: readonly WrittenItem[], at: number): number {
  return written[at - 1]?.end ?? 0;
}

function beginsWithResult(written: WrittenItem | undefined): boolean {
  return written?.seen.find((message) => message !== undefined)?.role === "tool";
}

/** A message with the blocks of both. */
function joined(answers: Uint8Array<ArrayBuffer>, results: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const [ours, theirs] = [answers, results].map((bytes) => {
    const at = objectFields(bytes).get("content")?.start ?? 0;
    return arrayItems(bytes, at).map(({ start, end }) => decoder.decode(bytes.subarray(start, end)));
  });
  const value = encoder.encode(`[${[...ours ?? [], ...theirs ?? []].join(",")}]`);
  return editJson(results, [{ path: ["content"], value }]);
}

/** A place for a mark: the item, and how many of its blocks stand in front. Default: all. */
interface Place {
  readonly at: number;
  readonly blocks?: number | undefined;
}

interface Placed extends Place {
  readonly mark: string;
}

/** The marks that left, and where they stood. */
function findLost(request: WireRequest, written: readonly WrittenItem[]): Placed[] {
  const places = new Map(written.map(({ item }, at) => [item, at]));
  const lost: Placed[] = [];
  let waiting: string[] = [];
  for (const item of request.items) {
    const at = places.get(item);
    if (at === undefined) {
      // Others stand in its place.
      waiting.push(...marksOf(item.parts));
      continue;
    }
    lost.push(...waiting.map((mark) => ({ mark, at: at - 1 })));
    waiting = [];
    const { seen } = written[at]!;
    for (const [index, part] of item.parts.entries()) {
      const shown = seen[index];
      if (part.mark === undefined || shown === part.message || (shown && !part.holdsMark)) continue;
      const before = seen.slice(0, index).filter((message) => message !== undefined).length;
      lost.push({ mark: part.mark, at, blocks: shown ? before + 1 : before });
    }
  }
  return [...lost, ...waiting.map((mark) => ({ mark, at: written.length - 1 }))];
}

/** Where one more mark saves something, most first. */
function findUseful(
  request: WireRequest,
  written: readonly WrittenItem[],
  { kept, stable, completesMarks, isLast = false }: ArrangedPrompt,
): Place[] {
  const known = new Set(request.items);
  const isOurs = ({ item }: WrittenItem) => item !== undefined && !known.has(item);
  const end = written.length - 1;
  const isOpen = (written[end] && isOurs(written[end])) ||
    (completesMarks !== undefined && !isLast && lacksEnd(request));
  const useful: Place[] = isOpen ? [{ at: end }] : [];
  const placeOf = (length: number | undefined): Place | undefined => {
    const at = length ? written.findIndex((one) => one.end >= length) : -1;
    if (length === undefined || at < 0) return undefined;
    const isWhole = written[at]!.end === length;
    return { at, blocks: isWhole ? undefined : length - endBefore(written, at) };
  };
  const [changes, before] = [placeOf(kept), placeOf(stable?.shared)];
  if (changes) useful.push(changes);
  else if (before && isFar(written, before)) useful.push(before);
  const changed = placeOf(stable?.edited)?.at ?? -1;
  return [...useful, { at: Math.max(changed, written.findLastIndex(isOurs)) }];
}

/**
 * Whether a conversation that goes on has no mark behind the last reply. Of one that has no reply yet nobody knows whether
 * it will, and what is written to the cache costs more than what isn't.
 */
function lacksEnd(request: WireRequest): boolean {
  const isReply = ({ parts }: WireRequest["items"][number]) =>
    parts.some(({ message }) => message.role === "assistant");
  const last = request.items.findLastIndex(isReply);
  if (last < 0 || isRecord(readField(request, "cache_control"))) return false;
  return !request.items.slice(last + 1).some(({ parts }) => marksOf(parts).length > 0);
}

/** Whether the provider wouldn't find a place from the end. */
function isFar(written: readonly WrittenItem[], { at, blocks = Infinity }: Place): boolean {
  const [first = 0, ...others] = written.slice(at).map(({ bytes }) => bytes ? countBlocks(bytes) : 0);
  return others.reduce((sum, one) => sum + one, Math.max(0, first - blocks)) > LOOK_BACK_BLOCKS;
}

function countBlocks(bytes: Uint8Array<ArrayBuffer>): number {
  const content = objectFields(bytes).get("content");
  if (!content) return 0;
  return isListAt(bytes, content) ? arrayItems(bytes, content.start).length : 1;
}

/** A mark that asks for as long as the last of these. */
function writeMark(marks: ReturnType<typeof readCacheMarks>): string {
  const hour = (marks.at(-1)?.ttlMs ?? 0) > SHORT_TTL_MS;
  return JSON.stringify({ type: "ephemeral", ...(hour && { ttl: "1h" }) });
}

function marksOf(parts: readonly ItemPart[]): string[] {
  return parts.flatMap(({ mark }) => mark ?? []);
}

/** A message without marks. */
function unmarked(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const message = readJsonAt(bytes);
  const content = withoutMarks(isRecord(message) ? message.content : undefined);
  return Array.isArray(content) ? editJson(bytes, [{ path: ["content"], value: jsonBytes(content) }]) : bytes;
}

/** Returns blocks without their cache breakpoints, those in results included. */
export function withoutMarks(blocks: unknown): unknown {
  if (!Array.isArray(blocks)) return blocks;
  return blocks.map((block) => {
    if (!isRecord(block)) return block;
    const { cache_control: _, ...rest } = block;
    return rest.type === "tool_result" ? { ...rest, content: withoutMarks(rest.content) } : rest;
  });
}

/** A message whose last block, of the first `blocks`, that can have a mark has one; nothing if none can. */
function withMark(
  bytes: Uint8Array<ArrayBuffer>,
  mark: string,
  blocks = Infinity,
): Uint8Array<ArrayBuffer> | undefined {
  const span = objectFields(bytes).get("content");
  if (!span) return undefined;
  const content = readJsonAt(bytes, span);
  if (typeof content === "string") {
    if (content.trim() === "" || blocks < 1) return undefined;
    const text = decoder.decode(bytes.subarray(span.start, span.end));
    const value = encoder.encode(`[{"type":"text","text":${text},"cache_control":${mark}}]`);
    return editJson(bytes, [{ path: ["content"], value }]);
  }
  const list: readonly unknown[] = Array.isArray(content) ? content : [];
  const at = list.findLastIndex((block, at) =>
    at < blocks && isRecord(block) && !isThinking(block) && hasContent(block)
  );
  const block = list[at];
  const place = arrayItems(bytes, span.start)[at];
  if (!isRecord(block) || !place) return undefined;
  if (isRecord(block.cache_control)) return bytes;
  const edit = { path: ["cache_control"], value: encoder.encode(mark) };
  const value = editJson(bytes.subarray(place.start, place.end), [edit]);
  return editJson(bytes, [{ path: ["content", at], value }]);
}

/** Whether a block has text, or is another one: empty texts are refused. */
export function hasContent({ type, text }: JsonRecord): boolean {
  return type !== "text" || (typeof text === "string" && text.trim() !== "");
}

/** Whether a block contains what the model thought. */
export function isThinking({ type }: JsonRecord): boolean {
  return type === "thinking" || type === "redacted_thinking";
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
