import { checkGiven } from "@tare/messages";
import { arrayItems, joinBytes, objectFields, type Span } from "./json_spans.ts";

/** The way from a JSON value to one inside of it: names of fields, and numbers of items. */
export type JsonPath = readonly (string | number)[];

/** A change of a JSON object. */
export interface JsonEdit {
  /** The value that changes. */
  readonly path: JsonPath;
  /** The JSON that stands there from now on. Absent: the value, an item of an array, leaves. */
  readonly value?: Uint8Array<ArrayBuffer>;
}

interface Change extends Span {
  readonly value?: Uint8Array<ArrayBuffer>;
}

/**
 * A JSON object with these changes: all other bytes stay as they are. A field of the outermost object that isn't there
 * is added in front of all.
 *
 * @param fields Where the fields of the outermost object stand. Default: they are looked for.
 * @throws {SyntaxError} if it can't be read as far as needed.
 * @throws {RangeError} if there is nothing at a path.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { editJson } from "@tare/wire";
 *
 * const encode = (text: string) => new TextEncoder().encode(text);
 * const edited = editJson(encode('{"n": 1.0, "list": ["a", "b", "c"]}'), [
 *   { path: ["list", 1] },
 *   { path: ["list", 2], value: encode('"C"') },
 * ]);
 * assertEquals(new TextDecoder().decode(edited), '{"n": 1.0, "list": ["a", "C"]}');
 * ```
 */
export function editJson(
  bytes: Uint8Array<ArrayBuffer>,
  edits: readonly JsonEdit[],
  fields?: ReadonlyMap<string, Span>,
): Uint8Array<ArrayBuffer> {
  checkGiven("editJson()", { bytes, edits }, { bytes: "bytes", edits: "array" });
  const spans = fields ?? objectFields(bytes);
  const lists = new Map<number, readonly Span[]>();
  const itemsAt = (start: number) => {
    const items = lists.get(start) ?? arrayItems(bytes, start);
    lists.set(start, items);
    return items;
  };
  const find = (path: JsonPath): Span | undefined => {
    const [first, ...steps] = path;
    let at = spans.get(String(first));
    for (const step of steps) {
      if (!at) return undefined;
      at = typeof step === "string" ? objectFields(bytes, at.start).get(step) : itemsAt(at.start)[step];
    }
    return at;
  };
  const leaving = new Set(edits.filter(({ value }) => !value).map(({ path }) => JSON.stringify(path)));
  const changes = edits.map(({ path, value }): Change => {
    const span = find(path);
    const last = path.at(-1);
    if (span && value) return { ...span, value };
    if (span && typeof last === "number") {
      const list = path.slice(0, -1);
      const items = itemsAt(find(list)?.start ?? 0);
      // Its comma leaves too: the one behind it as long as nothing before it stays, else the one before it.
      const isFirst = items.slice(0, last).every((_, at) => leaving.has(JSON.stringify([...list, at])));
      if (isFirst) return { start: span.start, end: items[last + 1]?.start ?? span.end };
      return { start: items[last - 1]?.end ?? span.start, end: span.end };
    }
    if (span || !value || path.length !== 1) {
      throw new RangeError(`Cannot change ${JSON.stringify(path)}: there is no such value`);
    }
    const start = bytes.indexOf(OPEN_OBJECT) + 1;
    const comma = spans.size > 0 ? "," : "";
    const name = encoder.encode(`${JSON.stringify(last)}:`);
    return { start, end: start, value: joinBytes([name, value, encoder.encode(comma)]) };
  });
  changes.sort((a, b) => a.start - b.start);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let from = 0;
  for (const { start, end, value } of changes) {
    pieces.push(bytes.subarray(from, start));
    if (value) pieces.push(value);
    from = end;
  }
  return joinBytes([...pieces, bytes.subarray(from)]);
}

const encoder = new TextEncoder();
const OPEN_OBJECT = 0x7b;
