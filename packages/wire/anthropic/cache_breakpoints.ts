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

/** Most cache breakpoints of a request. */
export const MAX_CACHE_BREAKPOINTS = 4;

/** The provider's lookback from a breakpoint, in blocks. */
export const LOOK_BACK_BLOCKS = 20;

/** Default cache lifetime, in milliseconds. */
export const SHORT_TTL_MS = 300_000;

const HOUR_MS = 3_600_000;

/** Returns the cache breakpoints of a request, in prompt order. */
export function readCacheBreakpoints(request: WireRequest): {
  readonly of: "tool" | "message";
  /** Index among the tools at the front, or all messages. */
  readonly at: number;
  readonly ttlMs: number;
}[] {
  const { tools = [], items } = request;
  const breakpoints: ReturnType<typeof readCacheBreakpoints> = [];
  for (const [at, { bytes }] of tools.filter(({ inFront }) => inFront).entries()) {
    const tool = readJsonAt(bytes);
    breakpoints.push(...ttlsOf([tool]).map((ttlMs) => ({ of: "tool" as const, at, ttlMs })));
  }
  let at = 0;
  for (const { parts } of items) {
    for (const { mark } of parts) {
      if (mark !== undefined) breakpoints.push({ of: "message", at, ttlMs: ttlOf(JSON.parse(mark)) });
      at++;
    }
  }
  const whole = readField(request, "cache_control");
  if (isRecord(whole)) breakpoints.push({ of: "message", at: at - 1, ttlMs: ttlOf(whole) });
  return breakpoints;
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
 * Returns the items of a changed list with cache breakpoints; those of evicted blocks move to the nearest
 * block before. If the client sets breakpoints, or `completesBreakpoints` permits it, unused ones are placed by
 * benefit: at the end of a continued conversation or after added items; before the first change, or at the
 * previous request's end if beyond the lookback; after the last change. A final request yields its last
 * breakpoint for these. `ends` are the message counts before added breakpoints.
 * Lifetimes must not increase along the prompt: an added breakpoint gets that of the client's next one, or
 * else of its last one among the messages, or the shortest.
 * Answers to recalls are merged with the results after them: if separate, models learn not to make parallel
 * calls.
 */
export function arrangeItems(
  request: WireRequest,
  written: readonly WrittenItem[],
  prompt: ArrangedPrompt,
): { readonly items: Uint8Array<ArrayBuffer>[]; readonly ends: readonly number[] } {
  const list = written.map(({ bytes }) => bytes);
  const ends: number[] = [];
  /** Returns whether the nearest possible block had no breakpoint. */
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
  const breakpoints = readCacheBreakpoints(request);
  const heads = request.items.filter(({ bytes }) => !bytes).flatMap(({ parts }) => parts).length;
  const own = breakpoints.filter(({ of, at }) => of === "message" && at >= heads);
  const marksItself = breakpoints.length > 0 || prompt.completesBreakpoints === "any";
  const known = new Set(request.items);
  const newest = request.items.at(-1);
  const last = written.findIndex(({ item }) => item === newest);
  const mark = breakpointsOf(newest?.parts ?? []).at(-1);
  const bytes = list[last];
  let free = marksItself ? MAX_CACHE_BREAKPOINTS - breakpoints.length : 0;
  const lacksMark = marksItself && free < (prompt.sharedCount === undefined ? 1 : 2);
  // If breakpoints are scarce, the client's last one moves to the end of a recall.
  if (lacksMark && mark !== undefined && bytes && last < written.length - 1) {
    list[last] = unmarked(bytes);
    put({ mark, at: written.length - 1 });
  }
  // A final request's breakpoint is useless if its prefix is cached.
  if (
    prompt.isLast && prompt.sharedCount !== undefined && free < 1 && mark !== undefined && bytes &&
    marksItself
  ) {
    list[last] = unmarked(bytes);
    free++;
  }
  for (const { at, blocks } of findUseful(request, written, prompt)) {
    const mark = written.slice(at).flatMap(({ item }) => breakpointsOf(item?.parts ?? []))[0] ??
      writeMark(own);
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

/** Returns the message counts before the client's breakpoints; 0 is after the tools. */
export function findMarkedEnds(request: WireRequest, written: readonly WrittenItem[]): number[] {
  const { tools = [] } = request;
  const isInTools = tools.some(({ bytes, inFront }) => inFront && ttlsOf([readJsonAt(bytes)]).length > 0);
  const ends = isInTools ? [0] : [];
  for (const [at, { item, bytes, seen }] of written.entries()) {
    if (!item || (item.bytes && !bytes)) continue;
    let place = endBefore(written, at);
    for (const [index, part] of item.parts.entries()) {
      const visible = seen[index];
      if (visible) place++;
      if (part.mark !== undefined && visible && (visible === part.message || !part.holdsMark)) {
        ends.push(place);
      }
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

function joined(answers: Uint8Array<ArrayBuffer>, results: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const [ours, theirs] = [answers, results].map((bytes) => {
    const at = objectFields(bytes).get("content")?.start ?? 0;
    return arrayItems(bytes, at).map(({ start, end }) => decoder.decode(bytes.subarray(start, end)));
  });
  const value = encoder.encode(`[${[...ours ?? [], ...theirs ?? []].join(",")}]`);
  return editJson(results, [{ path: ["content"], value }]);
}

/** Number of `blocks` before a breakpoint. Default: all. */
interface Place {
  readonly at: number;
  readonly blocks?: number | undefined;
}

interface Placed extends Place {
  readonly mark: string;
}

function findLost(request: WireRequest, written: readonly WrittenItem[]): Placed[] {
  const places = new Map(written.map(({ item }, at) => [item, at]));
  const lost: Placed[] = [];
  let waiting: string[] = [];
  for (const item of request.items) {
    const at = places.get(item);
    if (at === undefined) {
      // Replaced by other items.
      waiting.push(...breakpointsOf(item.parts));
      continue;
    }
    lost.push(...waiting.map((mark) => ({ mark, at: at - 1 })));
    waiting = [];
    const { seen } = written[at]!;
    for (const [index, part] of item.parts.entries()) {
      const visible = seen[index];
      if (part.mark === undefined || visible === part.message || (visible && !part.holdsMark)) continue;
      const before = seen.slice(0, index).filter((message) => message !== undefined).length;
      lost.push({ mark: part.mark, at, blocks: visible ? before + 1 : before });
    }
  }
  return [...lost, ...waiting.map((mark) => ({ mark, at: written.length - 1 }))];
}

function findUseful(
  request: WireRequest,
  written: readonly WrittenItem[],
  { sharedCount, stable, completesBreakpoints, isLast = false }: ArrangedPrompt,
): Place[] {
  const known = new Set(request.items);
  const isOurs = ({ item }: WrittenItem) => item !== undefined && !known.has(item);
  const end = written.length - 1;
  const isOpen = (written[end] && isOurs(written[end])) ||
    (completesBreakpoints !== undefined && !isLast && lacksEnd(request));
  const useful: Place[] = isOpen ? [{ at: end }] : [];
  const placeOf = (length: number | undefined): Place | undefined => {
    const at = length ? written.findIndex((one) => one.end >= length) : -1;
    if (length === undefined || at < 0) return undefined;
    const isWhole = written[at]!.end === length;
    return { at, blocks: isWhole ? undefined : length - endBefore(written, at) };
  };
  const [changes, before] = [placeOf(sharedCount), placeOf(stable?.shared)];
  if (changes) useful.push(changes);
  else if (before && isFar(written, before)) useful.push(before);
  const changed = placeOf(stable?.edited)?.at ?? -1;
  return [...useful, { at: Math.max(changed, written.findLastIndex(isOurs)) }];
}

/**
 * Returns whether a continued conversation lacks a breakpoint after the last reply. A first request may stay
 * the only one, and cache writes cost extra.
 */
function lacksEnd(request: WireRequest): boolean {
  const isReply = ({ parts }: WireRequest["items"][number]) =>
    parts.some(({ message }) => message.role === "assistant");
  const last = request.items.findLastIndex(isReply);
  if (last < 0 || isRecord(readField(request, "cache_control"))) return false;
  return !request.items.slice(last + 1).some(({ parts }) => breakpointsOf(parts).length > 0);
}

function isFar(written: readonly WrittenItem[], { at, blocks = Infinity }: Place): boolean {
  const [first = 0, ...others] = written.slice(at).map(({ bytes }) => bytes ? countBlocks(bytes) : 0);
  return others.reduce((sum, one) => sum + one, Math.max(0, first - blocks)) > LOOK_BACK_BLOCKS;
}

function countBlocks(bytes: Uint8Array<ArrayBuffer>): number {
  const content = objectFields(bytes).get("content");
  if (!content) return 0;
  return isListAt(bytes, content) ? arrayItems(bytes, content.start).length : 1;
}

/** Returns a breakpoint with the lifetime of the last one. */
function writeMark(breakpoints: ReturnType<typeof readCacheBreakpoints>): string {
  const hour = (breakpoints.at(-1)?.ttlMs ?? 0) > SHORT_TTL_MS;
  return JSON.stringify({ type: "ephemeral", ...(hour && { ttl: "1h" }) });
}

function breakpointsOf(parts: readonly ItemPart[]): string[] {
  return parts.flatMap(({ mark }) => mark ?? []);
}

function unmarked(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const message = readJsonAt(bytes);
  const content = withoutBreakpoints(isRecord(message) ? message.content : undefined);
  return Array.isArray(content) ? editJson(bytes, [{ path: ["content"], value: jsonBytes(content) }]) : bytes;
}

/** Returns blocks without cache breakpoints, including those in results. */
export function withoutBreakpoints(blocks: unknown): unknown {
  if (!Array.isArray(blocks)) return blocks;
  return blocks.map((block) => {
    if (!isRecord(block)) return block;
    const { cache_control: _, ...rest } = block;
    return rest.type === "tool_result" ? { ...rest, content: withoutBreakpoints(rest.content) } : rest;
  });
}

/** Sets a breakpoint on the last suitable one of the first `blocks`; `undefined` without one. */
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

/** Returns whether a block isn't an empty text, which is refused. */
export function hasContent({ type, text }: JsonRecord): boolean {
  return type !== "text" || (typeof text === "string" && text.trim() !== "");
}

export function isThinking({ type }: JsonRecord): boolean {
  return type === "thinking" || type === "redacted_thinking";
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
