import { createHash } from "node:crypto";
import { hashText } from "@tare/messages";
import type { ConversationText } from "@tare/store";

/** A list whose JSON is longer than this is cut into pieces of about this length, in UTF-16 code units. */
const PIECE_CHARS = 2_000;

/** The longest piece of short entries: where no entry asks to be the last of one. */
const MOST_CHARS = 4 * PIECE_CHARS;

/** Names what stands for a long list. */
const PACKED = "\u0001packed";

/** A long list, or an object of many plain values as the list of its entries. */
interface Packed {
  readonly [PACKED]: {
    readonly isList: boolean;
    /** References of the pieces in front. */
    readonly refs: readonly string[];
    /** Entries behind them. */
    readonly rest: readonly unknown[];
  };
}

/**
 * A JSON value with texts in place of most of what is long in it. Where a list is cut its entries tell, not their places:
 * a list to which something is added, or in which something changes, has the same pieces but for one or two, so that
 * little of it has to be written again.
 */
export function packJson(value: unknown): {
  readonly value: unknown;
  readonly texts: readonly ConversationText[];
} {
  const texts: ConversationText[] = [];
  const packList = (list: readonly unknown[], isList: boolean): Packed | undefined => {
    const jsons = list.map(entryJson);
    if (jsons.reduce((sum, { length }) => sum + length, 0) <= PIECE_CHARS) return undefined;
    const refs: string[] = [];
    let from = 0;
    let length = 0;
    for (const [at, json] of jsons.entries()) {
      length += json.length;
      if (length < MOST_CHARS && !isLast(json)) continue;
      const content = `[${jsons.slice(from, at + 1).join()}]`;
      const ref = createHash("sha256").update(content).digest("hex").slice(0, 16);
      refs.push(ref);
      texts.push({ ref, content });
      [length, from] = [0, at + 1];
    }
    return { [PACKED]: { isList, refs, rest: list.slice(from) } };
  };
  const pack = (value: unknown): unknown => {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return packList(value, true) ?? value;
    const entries = Object.entries(value).filter(([, member]) => member !== undefined);
    const isPlain = entries.every(([, member]) => typeof member !== "object" || member === null);
    if (isPlain) return packList(entries, false) ?? value;
    return Object.fromEntries(entries.map(([name, member]) => [name, pack(member)]));
  };
  return { value: pack(value), texts };
}

/** The references of all texts that a packed value needs. */
export function refsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  if (isPacked(value)) return [...value[PACKED].refs];
  return Object.values(value).flatMap(refsIn);
}

/** The value that was packed. @throws {Error} if a text is missing. */
export function unpackJson(value: unknown, texts: ReadonlyMap<string, string>): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (!isPacked(value)) {
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, unpackJson(member, texts)]),
    );
  }
  const { isList, refs, rest } = value[PACKED];
  const list = refs.flatMap((ref): readonly unknown[] => {
    const content = texts.get(ref);
    if (content === undefined) throw new Error(`Cannot read a conversation: its text ${ref} is missing`);
    return JSON.parse(content);
  });
  list.push(...rest);
  return isList ? list : Object.fromEntries(list as [string, unknown][]);
}

function isPacked(value: object): value is Packed {
  return PACKED in value;
}

/** Whether an entry is the last of its piece: the shorter, the more seldom. */
function isLast(json: string): boolean {
  return hashText(json.slice(-12)) % Math.max(1, Math.floor(PIECE_CHARS / json.length)) === 0;
}

/** The JSON of an entry, which never changes: it is remembered for each object. */
function entryJson(entry: unknown): string {
  if (typeof entry === "number") return String(entry);
  if (typeof entry !== "object" || entry === null) return JSON.stringify(entry) ?? "null";
  let json = jsons.get(entry);
  if (json === undefined) jsons.set(entry, json = JSON.stringify(entry));
  return json;
}

const jsons = new WeakMap<object, string>();
