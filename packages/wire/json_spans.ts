/** Where a JSON value stands in its text: from its first byte to behind its last. */
export interface Span {
  readonly start: number;
  /** The byte behind its last. */
  readonly end: number;
}

/** Objects with more fields are nobody's. */
export const MAX_FIELDS = 5_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

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
      // Nothing follows the end of the text.
      return found ? bytes.length : value.end;
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

/** Reads the JSON that stands at a place. @throws {SyntaxError} if it is none. @throws {TypeError} if it isn't UTF-8. */
export function readJsonAt(bytes: Uint8Array<ArrayBuffer>, { start, end }: Span): unknown {
  return JSON.parse(decoder.decode(bytes.subarray(start, end)));
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

/** Calls `member` for each member of an object or array, or those behind the end of one; it says where the member ends. */
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
  for (let members = 2;; members++) {
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

/** From the opening quote to behind the closing one: the next quote before which the backslashes are even. */
function skipString(bytes: Uint8Array<ArrayBuffer>, start: number): number {
  for (let quote = bytes.indexOf(QUOTE, start + 1); quote >= 0; quote = bytes.indexOf(QUOTE, quote + 1)) {
    let before = quote;
    while (bytes[before - 1] === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote + 1;
  }
  throw misread("a closing quote", bytes.length);
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
