import { hashText } from "@tare/messages/internal";
import { createHash } from "node:crypto";

/** Default length of a piece, in UTF-16 code units. */
const PIECE_CHARS = 1_000;

/** Length of the longest piece, in pieces: where no entry ends one. */
const MOST_PIECES = 4;

/** So many characters at its end tell whether a piece ends there: single entries may be all alike. */
const END_CHARS = 48;

/**
 * So many entries in front are in no piece, and so many characters: with instructions, what stands for them changes more
 * often than the rest.
 */
const FRONT = 16;
const FRONT_CHARS = 500;

/** Names what stands for a long list. */
const PACKED = "\u0001packed";

/** A text that stands for a piece of a value. */
export interface ArchivedText {
  /** Its `archiveRef`. */
  readonly ref: string;
  readonly content: string;
}

/** A value as it was packed. */
export interface PackedJson {
  readonly value: unknown;
  /** The texts that weren't stored before. */
  readonly texts: readonly ArchivedText[];
}

/** A value as it was before it was packed. */
export interface UnpackedJson {
  readonly value: unknown;
  /** References of all texts that it needed. */
  readonly refs: ReadonlySet<string>;
}

/** A long list, or an object of many plain values as its names and values by turns. */
interface Packed {
  /** References of the pieces; of very many, packed themselves. */
  readonly [PACKED]: readonly string[] | Packed;
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

/** What a value is packed to. */
interface Packing {
  readonly stored: ReadonlySet<string>;
  readonly texts: ArchivedText[];
}

/**
 * Packs the versions of one value, one after the other, so that a value that grows takes what is new in it: what is as it
 * was is neither worked through nor written again. {@linkcode JsonPacker.unpack} gives it back.
 */
export class JsonPacker {
  /** By the path of names that leads to them. */
  readonly #lists = new Map<string, KnownList>();
  readonly #pieceChars: number;

  /**
   * @param options Length of the pieces in UTF-16 code units: long lists are cut into pieces of about this length. Default:
   * 1,000.
   */
  constructor({ pieceChars = PIECE_CHARS }: { readonly pieceChars?: number } = {}) {
    this.#pieceChars = pieceChars;
  }

  /**
   * A JSON value with texts in place of most of what is long in it; those that aren't `stored` come along. Where a list is
   * cut its entries tell, not their places: a list to which something is added, or in which something changes, has the
   * same pieces but for one or two, so that little of it has to be written again. Objects in lists must never change.
   */
  pack(value: unknown, stored: ReadonlySet<string> = new Set()): PackedJson {
    const texts: ArchivedText[] = [];
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

  #packList(list: readonly unknown[], path: string, to: Packing): Packed | undefined {
    const { stored, texts } = to;
    const known = this.#lists.get(path);
    let same = 0;
    while (known && same < known.list.length && known.list[same] === list[same]) same++;
    const pieces = known?.pieces.filter(({ end, ref }) => end <= same && stored.has(ref)) ?? [];
    // One that isn't stored any more takes those behind it along.
    while (pieces.length > 0 && pieces.at(-1) !== known?.pieces[pieces.length - 1]) pieces.pop();
    const front = frontOf(list);
    let from = pieces.at(-1)?.end ?? front.length;
    const jsons: string[] = [];
    let [length, end] = [0, ""];
    for (let at = from; at < list.length; at++) {
      const json = jsonOf(list[at]);
      jsons.push(json);
      length += json.length;
      end = (end + json).slice(-END_CHARS);
      if (length < MOST_PIECES * this.#pieceChars && !this.#isEnd(end, json.length)) continue;
      const content = `[${jsons.join()}]`;
      const ref = createHash("sha256").update(content).digest("hex").slice(0, 16);
      from = at + 1;
      pieces.push({ end: from, ref });
      texts.push({ ref, content });
      [jsons.length, length, end] = [0, 0, ""];
    }
    this.#lists.set(path, { list, pieces });
    if (pieces.length === 0) return undefined;
    const refs = pieces.map(({ ref }) => ref);
    return {
      [PACKED]: this.#packList(refs, `${path}/${PACKED}`, to) ?? refs,
      front,
      rest: list.slice(from),
    };
  }

  /** Whether a piece that ends so ends there: after shorter entries more seldom. */
  #isEnd(end: string, entryChars: number): boolean {
    return hashText(end) % Math.max(1, Math.floor(this.#pieceChars / entryChars)) === 0;
  }

  /**
   * The value that was packed, and the references of all texts that it needed, which are read with `readTexts`.
   *
   * @throws {Error} if a text is missing.
   */
  static async unpack(
    packed: unknown,
    readTexts: (refs: readonly string[]) => Promise<ReadonlyMap<string, string>>,
  ): Promise<UnpackedJson> {
    const texts = new Map<string, string>();
    // Those of references come first, and tell which others are needed.
    for (let refs = missingRefs(packed, texts); refs.length > 0; refs = missingRefs(packed, texts)) {
      const read = await readTexts(refs);
      for (const ref of refs) {
        const content = read.get(ref);
        if (content === undefined) throw new Error(`Cannot read a conversation: its text ${ref} is missing`);
        texts.set(ref, content);
      }
    }
    return { value: unpack(packed, texts), refs: new Set(texts.keys()) };
  }
}

/** References of texts that aren't there, as far as those that are there tell of them. */
function missingRefs(value: unknown, texts: ReadonlyMap<string, string>): readonly string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  if (!isPacked(value)) return Object.values(value).flatMap((member) => missingRefs(member, texts));
  const missing = missingRefs(value[PACKED], texts);
  return missing.length > 0 ? missing : refsOf(value, texts).filter((ref) => !texts.has(ref));
}

function refsOf({ [PACKED]: refs }: Packed, texts: ReadonlyMap<string, string>): readonly string[] {
  return isList(refs) ? refs : unpackList(refs, texts) as readonly string[];
}

function isList(refs: Packed[typeof PACKED]): refs is readonly string[] {
  return Array.isArray(refs);
}

function unpack(value: unknown, texts: ReadonlyMap<string, string>): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (!isPacked(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, unpack(member, texts)]));
  }
  const list = unpackList(value, texts);
  if (!value.isObject) return list;
  return Object.fromEntries(list.flatMap((name, at) => at % 2 === 0 ? [[name, list[at + 1]]] : []));
}

function unpackList(packed: Packed, texts: ReadonlyMap<string, string>): readonly unknown[] {
  const pieces = refsOf(packed, texts).flatMap((ref): readonly unknown[] => JSON.parse(texts.get(ref)!));
  return [...packed.front, ...pieces, ...packed.rest];
}

function isPacked(value: object): value is Packed {
  return PACKED in value;
}

function frontOf(list: readonly unknown[]): readonly unknown[] {
  let chars = 0;
  const end = list.slice(0, FRONT).findIndex((entry) => (chars += jsonOf(entry).length) > FRONT_CHARS);
  return list.slice(0, end < 0 ? FRONT : end);
}

function jsonOf(entry: unknown): string {
  return JSON.stringify(entry) ?? "null";
}
