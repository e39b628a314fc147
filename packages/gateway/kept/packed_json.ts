import { createHash } from "node:crypto";
import { hashText } from "@tare/messages";

/** A list whose JSON is longer than this is cut into pieces of about this length, in UTF-16 code units. */
const PIECE_CHARS = 2_000;

/** The longest piece of short entries: where no entry asks to be the last of one. */
const MOST_CHARS = 4 * PIECE_CHARS;

/** So many entries in front are in no piece: with instructions, what stands for them changes more often than the rest. */
const FRONT = 16;

/** Names what stands for a long list. */
const PACKED = "\u0001packed";

/** A text that stands for a piece of a value. */
export interface PackedText {
  /** Its `archiveRef`. */
  readonly ref: string;
  readonly content: string;
}

/** A long list, or an object of many plain values as its names and values by turns. */
interface Packed {
  /** References of the pieces. */
  readonly [PACKED]: readonly string[];
  /** Entries in front of them. */
  readonly front: readonly unknown[];
  /** Entries behind them. */
  readonly rest: readonly unknown[];
  /** Absent: it is a list. */
  readonly isObject?: boolean;
}

/** A list as it was packed last, and the pieces of it: where each ends, and its reference. */
interface KnownList {
  readonly list: readonly unknown[];
  readonly pieces: readonly { readonly end: number; readonly ref: string }[];
}

/** Packs the versions of one value, one after the other: what is as it was isn't worked through again. */
export class JsonPacker {
  /** By the path of names that leads to them. */
  readonly #lists = new Map<string, KnownList>();

  /**
   * A JSON value with texts in place of most of what is long in it; those that aren't `stored` come along. Where a list is
   * cut its entries tell, not their places: a list to which something is added, or in which something changes, has the
   * same pieces but for one or two, so that little of it has to be written again. Objects in lists must never change.
   */
  pack(value: unknown, stored: ReadonlySet<string> = new Set()): {
    readonly value: unknown;
    readonly texts: readonly PackedText[];
  } {
    const texts: PackedText[] = [];
    return { value: this.#pack(value, "", { stored, texts }), texts };
  }

  #pack(value: unknown, path: string, to: Packing): unknown {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return this.#packList(value, path, to) ?? value;
    const entries = Object.entries(value).filter(([, member]) => member !== undefined);
    const isPlain = entries.every(([, member]) => typeof member !== "object" || member === null);
    if (isPlain) {
      const packed = this.#packList(entries.flat(), path, to);
      return packed ? { ...packed, isObject: true } : value;
    }
    return Object.fromEntries(
      entries.map(([name, member]) => [name, this.#pack(member, `${path}/${name}`, to)]),
    );
  }

  #packList(list: readonly unknown[], path: string, { stored, texts }: Packing): Packed | undefined {
    const known = this.#lists.get(path);
    let same = 0;
    while (known && same < known.list.length && known.list[same] === list[same]) same++;
    const pieces = known?.pieces.filter(({ end, ref }) => end <= same && stored.has(ref)) ?? [];
    // One that isn't stored any more takes those behind it along.
    while (pieces.length > 0 && pieces.at(-1) !== known?.pieces[pieces.length - 1]) pieces.pop();
    let from = pieces.at(-1)?.end ?? FRONT;
    const jsons: string[] = [];
    let length = 0;
    for (let at = from; at < list.length; at++) {
      const json = JSON.stringify(list[at]) ?? "null";
      jsons.push(json);
      length += json.length;
      if (length < MOST_CHARS && !isLast(json)) continue;
      const content = `[${jsons.join()}]`;
      const ref = createHash("sha256").update(content).digest("hex").slice(0, 16);
      from = at + 1;
      pieces.push({ end: from, ref });
      texts.push({ ref, content });
      [jsons.length, length] = [0, 0];
    }
    this.#lists.set(path, { list, pieces });
    return pieces.length === 0
      ? undefined
      : { [PACKED]: pieces.map(({ ref }) => ref), front: list.slice(0, FRONT), rest: list.slice(from) };
  }
}

/** What a value is packed to. */
interface Packing {
  readonly stored: ReadonlySet<string>;
  readonly texts: PackedText[];
}

/** The references of all texts that a packed value needs. */
export function refsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  if (isPacked(value)) return [...value[PACKED]];
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
  const pieces = value[PACKED].flatMap((ref): readonly unknown[] => {
    const content = texts.get(ref);
    if (content === undefined) throw new Error(`Cannot read a conversation: its text ${ref} is missing`);
    return JSON.parse(content);
  });
  const list = [...value.front, ...pieces, ...value.rest];
  if (!value.isObject) return list;
  return Object.fromEntries(list.flatMap((name, at) => at % 2 === 0 ? [[name, list[at + 1]]] : []));
}

function isPacked(value: object): value is Packed {
  return PACKED in value;
}

/** Whether an entry is the last of its piece: the shorter, the more seldom. */
function isLast(json: string): boolean {
  return hashText(json.slice(-12)) % Math.max(1, Math.floor(PIECE_CHARS / json.length)) === 0;
}
