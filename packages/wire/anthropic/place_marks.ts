import { editJson } from "../edit_json.ts";
import { isRecord, type JsonRecord } from "../json_record.ts";
import { readJsonAt } from "../json_spans.ts";
import type { ItemPart } from "../protocol.ts";
import type { WireRequest } from "../read_request.ts";
import type { WrittenItem } from "../write_request.ts";
import { MAX_CACHE_MARKS, readCacheMarks } from "./cache_marks.ts";

/**
 * The items of a changed list with the marks of the provider's cache in their places: one whose block left stands with
 * the nearest block in front. If the client marks its prompts and has a mark left, one more stands where it saves most:
 * behind what was added to the client's list; in front of what this request changes, so that it is read from the cache
 * up to there; else behind the last change, which is what the next one leaves as it is.
 */
export function placeMarks(
  request: WireRequest,
  written: readonly WrittenItem[],
  kept: number | undefined,
): Uint8Array<ArrayBuffer>[] {
  const list = written.map(({ bytes }) => bytes);
  const put = (mark: string, at: number, blocks?: number): boolean => {
    for (let place = at; place >= 0; place--) {
      const bytes = list[place];
      const marked = bytes && withMark(bytes, mark, place === at ? blocks : undefined);
      if (!marked) continue;
      list[place] = marked;
      return true;
    }
    return false;
  };
  const places = new Map(written.map(({ item }, at) => [item, at]));
  let waiting: string[] = [];
  for (const item of request.items) {
    const at = places.get(item);
    if (at === undefined) {
      // Others stand in its place.
      waiting.push(...marksOf(item.parts));
      continue;
    }
    for (const mark of waiting) put(mark, at - 1);
    waiting = [];
    const { seen } = written[at]!;
    for (const [index, part] of item.parts.entries()) {
      const shown = seen.get(part);
      if (part.mark === undefined || shown === part.message || (shown && !part.holdsMark)) continue;
      const before = item.parts.slice(0, index).filter((one) => seen.has(one)).length;
      put(part.mark, at, shown ? before + 1 : before);
    }
  }
  const marks = readCacheMarks(request);
  const known = new Set(request.items);
  const isChanged = ({ item, seen }: WrittenItem) =>
    !item || !known.has(item) || item.parts.some((part) => seen.get(part) !== part.message);
  const end = written.length - 1;
  const isAdded = written[end] !== undefined && isChanged(written[end]);
  const first = kept === undefined ? -1 : written.findIndex((one) => one.end >= kept);
  const last = written.findLastIndex((one) => one.bytes !== undefined && isChanged(one));
  const at = isAdded ? end : first >= 0 ? first : last;
  if (marks.length > 0 && marks.length < MAX_CACHE_MARKS && at >= 0) {
    const next = written.slice(at).flatMap(({ item }) => marksOf(item?.parts ?? []))[0];
    const hour = (marks.at(-1)?.ttlMs ?? 0) >= 3_600_000;
    const own = JSON.stringify({ type: "ephemeral", ...(hour && { ttl: "1h" }) });
    const start = written[at - 1]?.end ?? 0;
    put(next ?? own, at, at === first && kept !== undefined ? kept - start : undefined);
  }
  return list.flatMap((bytes) => bytes ?? []);
}

function marksOf(parts: readonly ItemPart[]): string[] {
  return parts.flatMap(({ mark }) => mark ?? []);
}

/** A message whose last block, of the first `blocks`, that can have a mark has one; nothing if none can. */
function withMark(
  bytes: Uint8Array<ArrayBuffer>,
  mark: string,
  blocks = Infinity,
): Uint8Array<ArrayBuffer> | undefined {
  const message = readJsonAt(bytes, { start: 0, end: bytes.length }) as JsonRecord;
  const { content } = message;
  if (typeof content === "string") {
    if (content.trim() === "" || blocks < 1) return undefined;
    const block = { type: "text", text: content, cache_control: JSON.parse(mark) };
    return editJson(bytes, [{ path: ["content"], value: encode(JSON.stringify([block])) }]);
  }
  const list: readonly unknown[] = Array.isArray(content) ? content : [];
  const at = list.findLastIndex((block, at) => at < blocks && canHaveMark(block));
  const block = list[at];
  if (!isRecord(block)) return undefined;
  if (isRecord(block.cache_control)) return bytes;
  const value = encode(JSON.stringify({ ...block, cache_control: JSON.parse(mark) }));
  return editJson(bytes, [{ path: ["content", at], value }]);
}

function canHaveMark(block: unknown): boolean {
  if (!isRecord(block) || block.type === "thinking" || block.type === "redacted_thinking") return false;
  return block.type !== "text" || (typeof block.text === "string" && block.text.trim() !== "");
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
