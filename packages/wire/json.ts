/** A JSON object of unknown fields. */
export type JsonRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the value if it is a JSON object. */
export function asRecord(value: unknown): JsonRecord | undefined {
  return isRecord(value) ? value : undefined;
}

/** Returns the JSON object of a text, or `undefined`. */
export function parseRecord(text: string | undefined): JsonRecord | undefined {
  try {
    return text === undefined ? undefined : asRecord(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export function withoutNulls(fields: JsonRecord): JsonRecord {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Byte span of a JSON value. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

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
 * Returns the spans of an object's values, unparsed, by name; the last of duplicates counts.
 * @param known Called with each field's name and start. May return the end of a known array item to continue
 * from.
 * @throws {SyntaxError} if there is no complete object at `at`.
 * @throws {RangeError} with more than {@linkcode MAX_FIELDS} fields.
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

/**
 * Returns the first field of this name, among {@linkcode MAX_FIELDS}, in a possibly truncated or invalid
 * object.
 */
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
  const after = known?.(name, first);
  return {
    name,
    value: after === undefined ? spanAt(bytes, first) : { start: first, end: skipNested(bytes, after, 1) },
  };
}

/**
 * Returns the spans of an array's items.
 * @param after End of the item before the first one returned. Default: all items.
 * @throws {SyntaxError} if there is no complete array at `at`.
 */
export function arrayItems(bytes: Uint8Array<ArrayBuffer>, at = 0, after?: number): Span[] {
  const items: Span[] = [];
  walk(bytes, { at, open: OPEN_ARRAY, close: CLOSE_ARRAY, after }, (start) => {
    const item = spanAt(bytes, start);
    items.push(item);
    return item.end;
  });
  return items;
}

/**
 * Parses the JSON in a span. Default: all bytes.
 * @throws {SyntaxError} if it is invalid.
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

export function jsonBytes(value: unknown): Uint8Array<ArrayBuffer> {
  return encoder.encode(JSON.stringify(value));
}

export function isListAt(bytes: Uint8Array<ArrayBuffer>, { start }: Span): boolean {
  return bytes[start] === OPEN_ARRAY;
}

/** Returns the joined pieces; a single one unchanged. */
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

const FOUND = Infinity;

/**
 * Calls `member` for each member, or those after an end; it returns the member's end, or {@linkcode FOUND}.
 */
function walk(
  bytes: Uint8Array<ArrayBuffer>,
  { at, open, close, after }: {
    readonly at: number;
    readonly open: number;
    readonly close: number;
    readonly after?: number | undefined;
  },
  member: (start: number) => number,
): void {
  let end = after;
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

/** Bytes scanned before searching for a quote. */
const NEAR_BYTES = 32;

/** Returns the byte after the closing quote; 0 without one. */
function textEnd(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  // `at` is never between a backslash and its escaped byte.
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
  return new SyntaxError(`Cannot read the JSON: expected ${wanted} at byte ${at}`);
}

type JsonPath = readonly (string | number)[];

/** A change of a JSON object. */
export interface JsonEdit {
  readonly path: JsonPath;
  /** New JSON. Absent: removal. */
  readonly value?: Uint8Array<ArrayBuffer>;
}

interface Change extends Span {
  readonly value?: Uint8Array<ArrayBuffer>;
}

/**
 * Returns an object with changes; all other bytes stay unchanged. Missing top-level fields are added at the
 * start.
 * @param fields Spans of the top-level fields. Default: scanned.
 * @throws {SyntaxError} if it can't be read as far as needed.
 * @throws {RangeError} if a path doesn't exist.
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
      // Removes one comma too: the next one at the start, else the previous one.
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

function withComma(bytes: Uint8Array<ArrayBuffer>, { start, end }: Span, fields: readonly Span[]): Span {
  const before = fields.findLast((field) => field.end < start);
  if (before) return { start: before.end, end };
  const name = bytes.lastIndexOf(QUOTE, bytes.lastIndexOf(QUOTE, start - 1) - 1);
  const comma = skipBlanks(bytes, end);
  return { start: name, end: bytes[comma] === COMMA ? comma + 1 : end };
}

function lookUp<Key, Value>(values: Map<Key, Value>, key: Key, make: () => Value): Value {
  const value = values.get(key) ?? make();
  values.set(key, value);
  return value;
}

const encoder = new TextEncoder();

/** Deepest nesting, and most members in total. */
const MAX_DEPTH = 200;
const MAX_MEMBERS = 100_000;

/**
 * Returns the exceeded limit for processing by value, as a clause: `it is nested more than …`; `undefined`
 * within limits or for invalid JSON.
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
  /** Number of fields at each level; −1 for a list. */
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
