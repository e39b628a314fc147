/** A JSON object of unknown fields. */
export type JsonRecord = Readonly<Record<string, unknown>>;

/** Whether a value is a JSON object. */
export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value as a JSON object, or nothing if it is none. */
export function asRecord(value: unknown): JsonRecord | undefined {
  return isRecord(value) ? value : undefined;
}

/** Returns the JSON object of a text, or nothing if it is none. */
export function parseRecord(text: string | undefined): JsonRecord | undefined {
  try {
    return text === undefined ? undefined : asRecord(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Returns the fields whose value isn't null. */
export function withoutNulls(fields: JsonRecord): JsonRecord {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** Returns the value as a list, an empty one if it is none. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Place of a JSON value in its text. */
export interface Span {
  readonly start: number;
  /** The byte after its last. */
  readonly end: number;
}

/** Objects with more fields are nobody's. */
const MAX_FIELDS = 5_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/**
 * The values of a JSON object's fields, by name, as places in its text; of a name that stands twice the last counts.
 * What lies inside the values isn't looked at, so that parts of a text can be read, or replaced, without the rest.
 *
 * @param known Told of each field and where its value starts. Of an array that is known as far as to the end of an item
 * it gives that end: nothing in front of it is looked at. Default: nothing is known.
 * @throws {SyntaxError} if there is no object at `at`, or it doesn't end.
 * @throws {RangeError} if it has more than {@linkcode MAX_FIELDS} fields.
 */
export function objectFields(
  bytes: Uint8Array<ArrayBuffer>,
  at = 0,
  known?: (name: string, start: number) => number | undefined,
): Map<string, Span> {
  const fields = new Map<string, Span>();
  walk(bytes, { at, open: OPEN_OBJECT, close: CLOSE_OBJECT }, (start) => {
    const { name, value } = fieldAt(bytes, start, known);
    fields.set(name, value);
    return value.end;
  });
  return fields;
}

/** The first field of this name, among the first {@linkcode MAX_FIELDS}, in an object whose text may end, or be no JSON, anywhere behind it. */
export function findField(bytes: Uint8Array<ArrayBuffer>, wanted: string): Span | undefined {
  let found: Span | undefined;
  try {
    walk(bytes, { at: 0, open: OPEN_OBJECT, close: CLOSE_OBJECT }, (start) => {
      const { name, value } = fieldAt(bytes, start);
      if (name === wanted) found = value;
      return found ? FOUND : value.end;
    });
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  return found;
}

function fieldAt(
  bytes: Uint8Array<ArrayBuffer>,
  start: number,
  known?: (name: string, start: number) => number | undefined,
): { readonly name: string; readonly value: Span } {
  if (bytes[start] !== QUOTE) throw misread("a name", start);
  const end = skipString(bytes, start);
  const colon = skipBlanks(bytes, end);
  if (bytes[colon] !== COLON) throw misread("a colon", colon);
  const name = readJsonAt(bytes, { start, end }) as string;
  const first = skipBlanks(bytes, colon + 1);
  const behind = known?.(name, first);
  return {
    name,
    value: behind === undefined ? spanAt(bytes, first) : { start: first, end: skipNested(bytes, behind, 1) },
  };
}

/**
 * The items of a JSON array as places in its text.
 *
 * @param behind The end of one of its items: only those that follow are looked for. Default: all are.
 * @throws {SyntaxError} if there is no array at `at`, or it doesn't end.
 */
export function arrayItems(bytes: Uint8Array<ArrayBuffer>, at = 0, behind?: number): Span[] {
  const items: Span[] = [];
  walk(bytes, { at, open: OPEN_ARRAY, close: CLOSE_ARRAY, behind }, (start) => {
    const item = spanAt(bytes, start);
    items.push(item);
    return item.end;
  });
  return items;
}

/**
 * Parses the JSON at a place. Default: all of the bytes.
 *
 * @throws {SyntaxError} if it is none.
 * @throws {TypeError} if it isn't UTF-8.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * const bytes = new TextEncoder().encode('{"n": [1, 2]}');
 * assertEquals([readJsonAt(bytes), readJsonAt(bytes, { start: 6, end: 12 })], [{ n: [1, 2] }, [1, 2]]);
 * ```
 */
export function readJsonAt(bytes: Uint8Array<ArrayBuffer>, span?: Span): unknown {
  return JSON.parse(decoder.decode(span ? bytes.subarray(span.start, span.end) : bytes));
}

/** Returns the JSON of a value as bytes. */
export function jsonBytes(value: unknown): Uint8Array<ArrayBuffer> {
  return encoder.encode(JSON.stringify(value));
}

/** Whether a list is at a place. */
export function isListAt(bytes: Uint8Array<ArrayBuffer>, { start }: Span): boolean {
  return bytes[start] === OPEN_ARRAY;
}

/** These pieces one behind the other; a single one as it is. */
export function joinBytes(pieces: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  const [only] = pieces;
  if (only && pieces.length === 1) return only;
  const joined = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** The end of a member behind which no other is wanted. */
const FOUND = Infinity;

/**
 * Calls `member` for each member of an object or array, or those after the end of one; it returns the member's end, or
 * {@linkcode FOUND}.
 */
function walk(
  bytes: Uint8Array<ArrayBuffer>,
  { at, open, close, behind }: {
    readonly at: number;
    readonly open: number;
    readonly close: number;
    readonly behind?: number | undefined;
  },
  member: (start: number) => number,
): void {
  let end = behind;
  if (end === undefined) {
    const first = skipBlanks(bytes, at);
    if (bytes[first] !== open) throw misread(open === OPEN_ARRAY ? "an array" : "an object", first);
    const start = skipBlanks(bytes, first + 1);
    if (bytes[start] === close) return;
    end = member(start);
  }
  for (let members = 2; end !== FOUND; members++) {
    const next = skipBlanks(bytes, end);
    if (bytes[next] === close) return;
    if (bytes[next] !== COMMA) throw misread("a comma", next);
    if (open === OPEN_OBJECT && members > MAX_FIELDS) {
      throw new RangeError(`Cannot read the JSON: one of its objects has more than ${MAX_FIELDS} fields`);
    }
    end = member(skipBlanks(bytes, next + 1));
  }
}

function spanAt(bytes: Uint8Array<ArrayBuffer>, start: number): Span {
  const first = bytes[start];
  if (first === QUOTE) return { start, end: skipString(bytes, start) };
  if (first === OPEN_ARRAY || first === OPEN_OBJECT) return { start, end: skipNested(bytes, start) };
  let end = start;
  while (end < bytes.length && !isEnd(bytes[end])) end++;
  if (end === start) throw misread("a value", start);
  return { start, end };
}

/** The end of what is open so deep at a place. */
function skipNested(bytes: Uint8Array<ArrayBuffer>, start: number, open = 0): number {
  let depth = open;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = skipString(bytes, at) - 1;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) depth++;
    else if ((byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) && --depth === 0) return at + 1;
  }
  throw misread("an end", bytes.length);
}

function skipString(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  const end = textEnd(bytes, start);
  if (end === 0) throw misread("a closing quote", bytes.length);
  return end;
}

/** So many bytes are looked at one by one before the next quote is searched for: that is dear where there are many. */
const NEAR_BYTES = 32;

/** From the opening quote to behind the closing one: the next quote that isn't escaped; 0 if there is none. */
function textEnd(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  // Never between a backslash and what it escapes.
  for (let at = start + 1; at < bytes.length;) {
    const near = Math.min(at + NEAR_BYTES, bytes.length);
    while (at < near) {
      const byte = bytes[at];
      if (byte === QUOTE) return at + 1;
      at += byte === BACKSLASH ? 2 : 1;
    }
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0) return 0;
    let before = quote;
    while (before > at && bytes[before - 1] === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote + 1;
    at = quote + 1;
  }
  return 0;
}

function skipBlanks(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  let at = start;
  while (isBlank(bytes[at])) at++;
  return at;
}

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isEnd(byte: number | undefined): boolean {
  return byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT || isBlank(byte);
}

function misread(wanted: string, at: number): SyntaxError {
  return new SyntaxError(`Cannot read the JSON: ${wanted} is wanted at byte ${at}`);
}

/** The way from a JSON value to one inside of it: names of fields, and numbers of items. */
type JsonPath = readonly (string | number)[];

/** A change of a JSON object. */
export interface JsonEdit {
  /** The value that changes. */
  readonly path: JsonPath;
  /** The new JSON. Absent: the value, an item of an array or one field of an object, is removed. */
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
 */
export function editJson(
  bytes: Uint8Array<ArrayBuffer>,
  edits: readonly JsonEdit[],
  fields?: ReadonlyMap<string, Span>,
): Uint8Array<ArrayBuffer> {
  const spans = fields ?? objectFields(bytes);
  const objects = new Map<number, ReadonlyMap<string, Span>>();
  const lists = new Map<number, readonly Span[]>();
  const fieldsAt = (start: number) => lookUp(objects, start, () => objectFields(bytes, start));
  const itemsAt = (start: number) => lookUp(lists, start, () => arrayItems(bytes, start));
  const find = (path: JsonPath): Span | undefined => {
    const [first, ...steps] = path;
    let at = spans.get(String(first));
    for (const step of steps) {
      if (!at) return undefined;
      at = typeof step === "string" ? fieldsAt(at.start).get(step) : itemsAt(at.start)[step];
    }
    return at;
  };
  const removed = new Set(edits.filter(({ value }) => !value).map(({ path }) => JSON.stringify(path)));
  const fronts = new Map<number, number>();
  /** Returns the number of items at the front of a list that are all removed. */
  const frontOf = (list: JsonPath, start: number) =>
    lookUp(fronts, start, () => {
      let at = 0;
      while (removed.has(JSON.stringify([...list, at]))) at++;
      return at;
    });
  const changes = edits.map((edit): Change => {
    const { path, value } = edit;
    const span = find(path);
    const last = path.at(-1);
    if (span && value) return { ...span, value };
    const list = path.slice(0, -1);
    const start = find(list)?.start;
    if (span && typeof last === "number" && start !== undefined) {
      const items = itemsAt(start);
      // Its comma is removed too: the one after it while everything before it is removed, else the one before it.
      if (last < frontOf(list, start)) return { start: span.start, end: items[last + 1]?.start ?? span.end };
      return { start: items[last - 1]!.end, end: span.end };
    }
    if (span && typeof last === "string") {
      const siblings = path.length === 1 ? spans : fieldsAt(start!);
      return withComma(bytes, span, [...siblings.values()]);
    }
    if (!value || path.length !== 1) {
      throw new RangeError(`Cannot change ${JSON.stringify(path)}: there is no such value`);
    }
    const first = bytes.indexOf(OPEN_OBJECT) + 1;
    // In front of an empty object's end only fields can be added.
    const comma = spans.size > 0 || edit !== edits.at(-1) ? "," : "";
    const name = encoder.encode(`${JSON.stringify(last)}:`);
    return { start: first, end: first, value: joinBytes([name, value, encoder.encode(comma)]) };
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

/** Returns the place of a field, its name and the comma after the field before it, or else before the field after it. */
function withComma(bytes: Uint8Array<ArrayBuffer>, { start, end }: Span, fields: readonly Span[]): Span {
  const before = fields.findLast((field) => field.end < start);
  if (before) return { start: before.end, end };
  const name = bytes.lastIndexOf(QUOTE, bytes.lastIndexOf(QUOTE, start - 1) - 1);
  const comma = skipBlanks(bytes, end);
  return { start: name, end: bytes[comma] === COMMA ? comma + 1 : end };
}

/** Returns the value of a key, made when first asked for. */
function lookUp<Key, Value>(values: Map<Key, Value>, key: Key, make: () => Value): Value {
  const value = values.get(key) ?? make();
  values.set(key, value);
  return value;
}

const encoder = new TextEncoder();

/** Most lists and objects inside one another, and most members of all of them together. */
const MAX_DEPTH = 200;
const MAX_MEMBERS = 100_000;

/**
 * What of a JSON text is too much for whoever works through it value by value, as a sentence goes on: `it is nested more
 * than …`. Nothing of one that is within the limits, or is no JSON. Takes a moment for megabytes, whatever they hold.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { jsonExcess, readJsonAt } from "@tare/wire/internal";
 *
 * const nested = new TextEncoder().encode("[".repeat(201));
 * assertEquals(jsonExcess(nested), "it is nested more than 200 levels deep");
 * ```
 */
export function jsonExcess(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  let depth = 0;
  let members = 0;
  /** How many fields the object at each level has so far; -1 of a list. */
  const fields: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = textEnd(bytes, at) - 1;
        if (at < 0) return undefined;
        break;
      case OPEN_ARRAY:
      case OPEN_OBJECT:
        members++;
        fields[depth] = bytes[at] === OPEN_OBJECT ? 1 : -1;
        if (++depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`;
        break;
      case CLOSE_ARRAY:
      case CLOSE_OBJECT:
        depth--;
        break;
      case COMMA:
        members++;
        if (fields[depth - 1]! > 0 && ++fields[depth - 1]! > MAX_FIELDS) {
          return `one of its objects has more than ${MAX_FIELDS} fields`;
        }
    }
    if (members > MAX_MEMBERS) return `it holds more than ${MAX_MEMBERS} values`;
  }
  return undefined;
}
