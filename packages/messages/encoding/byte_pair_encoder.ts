import { RankTable } from "./rank_table.ts";

/** An encoding as js-tiktoken ships it: the packed ranks, and the pattern that cuts text into pieces. */
export interface EncodingData {
  readonly bpe_ranks: string;
  readonly pat_str: string;
}

/** Encodes text, counts its tokens. */
interface BytePairEncoder {
  readonly count: (text: string) => number;
  readonly encode: (text: string) => readonly number[];
}

/**
 * The pattern is matched in windows of this many UTF-16 code units: a single match over some four million makes
 * V8's regular expressions run out of stack.
 */
const WINDOW_LENGTH = 2 ** 20;

/** UTF-8 bytes of one UTF-16 code unit, at most. */
const MAX_UNIT_BYTES = 3;

/** Pieces up to this many code units are encoded in a buffer that is kept. */
const KEPT_LENGTH = 4096;

/** So many pieces are remembered with the number of their tokens, each of at most so many code units. */
const KNOWN = { pieces: 8192, length: 64 };

/**
 * Makes an encoder. Strings that look like special tokens are ordinary text to it, and lone surrogates are
 * encoded as U+FFFD.
 *
 * It is exact but for one case: in a text longer than 2^20 UTF-16 code units, a stretch of that length without a
 * space after something that isn't white space is cut where it stands, which may add a token or two.
 */
export function bytePairEncoder({ bpe_ranks, pat_str }: EncodingData): BytePairEncoder {
  const table = new RankTable(bpe_ranks);
  const merger = new BytePairMerger(table);
  const pattern = new RegExp(pat_str, "uy");
  const kept = makeBuffers(KEPT_LENGTH);
  // Names come again and again, and to merge one takes ten times as long as to look it up.
  const known = new Map<string, number>();

  /** Encodes a piece; returns the number of its tokens and hands the tokens themselves to the sink. */
  const encodePiece = (piece: string, sink: number[] | undefined): number => {
    const { bytes, tokens } = piece.length <= KEPT_LENGTH ? kept : makeBuffers(piece.length);
    const length = utf8(piece, bytes);
    const rank = table.rank(bytes, length);
    if (rank >= 0) {
      sink?.push(rank);
      return 1;
    }
    if (!sink && piece.length <= KNOWN.length) {
      const count = known.get(piece);
      if (count !== undefined) return count;
    }
    const count = merger.merge(bytes, length, tokens);
    if (sink) { for (const token of tokens.subarray(0, count)) sink.push(token); }
    // Of one ASCII piece's own: a slice would hold on to the text that it was cut from.
    else if (length === piece.length && length <= KNOWN.length) {
      if (known.size === KNOWN.pieces) known.clear();
      known.set(String.fromCharCode(...bytes.subarray(0, length)), count);
    }
    return count;
  };

  const encodeText = (text: string, sink?: number[]): number => {
    let count = 0;
    for (const window of windows(text)) {
      let start = 0;
      pattern.lastIndex = 0;
      while (start < window.length && pattern.test(window)) {
        count += encodePiece(window.slice(start, pattern.lastIndex), sink);
        start = pattern.lastIndex;
      }
    }
    return count;
  };

  return {
    count: (text) => encodeText(text),
    encode: (text) => {
      const tokens: number[] = [];
      encodeText(text, tokens);
      return tokens;
    },
  };
}

function makeBuffers(length: number) {
  return { bytes: new Uint8Array(MAX_UNIT_BYTES * length), tokens: new Int32Array(MAX_UNIT_BYTES * length) };
}

const textEncoder = new TextEncoder();

/** Writes a text as UTF-8; returns the number of bytes. */
function utf8(text: string, bytes: Uint8Array): number {
  // Most pieces are a few ASCII letters: for these the call of encodeInto costs more than the copying.
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return textEncoder.encodeInto(text, bytes).written;
    bytes[i] = code;
  }
  return text.length;
}

function* windows(text: string): Generator<string> {
  let start = 0;
  while (text.length - start > WINDOW_LENGTH) {
    const end = windowEnd(text, start);
    yield text.slice(start, end);
    start = end;
  }
  yield text.slice(start);
}

/** Where to end a window. In no encoding does a piece contain a space after something that isn't white space. */
function windowEnd(text: string, start: number): number {
  const limit = start + WINDOW_LENGTH;
  for (let end = limit; end > start; end--) {
    if (text[end] === " " && /\S/.test(text[end - 1] ?? "")) return end;
  }
  return /[\uD800-\uDBFF]/.test(text[limit - 1] ?? "") ? limit - 1 : limit;
}

/** Pieces up to this many bytes are merged in arrays that are kept; longer ones get their own. */
const KEPT_BYTES = 4096;

/**
 * Merges the bytes of one piece of text into tokens: as long as the union of two neighbours is a token, the union
 * of the lowest rank is made, the leftmost first.
 *
 * Looking for the lowest rank anew after each merge takes O(n²), for a long run of one letter minutes. Here the
 * neighbours that may be merged wait in one list for each rank, and the ranks in a heap: O(n log n) for any bytes.
 *
 * A rank's list is worked off in one go. This relies on what holds in each encoding that was trained as byte-pair
 * merges: a token is made of two tokens of lower rank, so that no merge gives rise to one of lower rank.
 *
 * Every index in here is in range by construction, which the compiler cannot see: hence the `!`.
 */
export class BytePairMerger {
  readonly #table: RankTable;
  readonly #byteRanks: Int32Array;
  readonly #kept: Workspace = makeWorkspace(KEPT_BYTES);
  /** First and last entry of each rank's list; -1 means none. */
  readonly #heads: Int32Array;
  readonly #tails: Int32Array;
  /** Ranks whose list is not empty, as a binary heap. */
  readonly #heap: Int32Array;

  constructor(table: RankTable) {
    this.#table = table;
    this.#byteRanks = Int32Array.from({ length: 256 }, (_, byte) => table.rank(Uint8Array.of(byte), 1));
    this.#heads = new Int32Array(table.size).fill(-1);
    this.#tails = new Int32Array(table.size);
    this.#heap = new Int32Array(table.size);
  }

  /**
   * Merges the first `length` bytes. Writes the ranks of the tokens to `tokens`, which needs room for `length`,
   * and returns their number.
   */
  merge(bytes: Uint8Array, length: number, tokens: Int32Array): number {
    const table = this.#table;
    const heads = this.#heads;
    const tails = this.#tails;
    const heap = this.#heap;
    const space = length <= KEPT_BYTES ? this.#kept : makeWorkspace(length);
    const { hashes, next, previous, union, entryAt, entryNext, batch } = space;
    let entries = 0;
    let waitingRanks = 0;

    /** Finds the union of the part at this byte and its neighbour, and lists it if it is a token. */
    const consider = (at: number) => {
      union[at] = -1;
      const neighbour = next[at]!;
      if (neighbour === length) return;
      const rank = table.sliceRank(bytes, hashes, at, next[neighbour]!);
      if (rank < 0) return;
      union[at] = rank;
      const entry = entries++;
      entryAt[entry] = at;
      entryNext[entry] = -1;
      if (heads[rank] === -1) {
        heads[rank] = entry;
        pushHeap(heap, waitingRanks++, rank);
      } else {
        entryNext[tails[rank]!] = entry;
      }
      tails[rank] = entry;
    };

    table.hashPrefixes(bytes, length, hashes);
    for (let at = 0; at < length; at++) {
      next[at] = at + 1;
      previous[at] = at - 1;
      // Until all is merged, tokens[at] is the rank of the part that starts at this byte.
      tokens[at] = this.#byteRanks[bytes[at]!]!;
    }
    for (let at = 0; at < length; at++) consider(at);

    let parts = length;
    while (waitingRanks > 0) {
      const rank = heap[0]!;
      popHeap(heap, waitingRanks--);
      let size = 0;
      let inOrder = true;
      for (let entry = heads[rank]!; entry !== -1; entry = entryNext[entry]!) {
        const at = entryAt[entry]!;
        if (size > 0 && at < batch[size - 1]!) inOrder = false;
        batch[size++] = at;
      }
      heads[rank] = -1;
      if (!inOrder) batch.subarray(0, size).sort();
      for (let i = 0; i < size; i++) {
        const at = batch[i]!;
        // Out of date: an overlapping merge came first.
        if (union[at] !== rank) continue;
        const absorbed = next[at]!;
        const after = next[absorbed]!;
        tokens[at] = rank;
        union[absorbed] = -1;
        next[at] = after;
        if (after < length) previous[after] = at;
        parts--;
        consider(at);
        if (at > 0) consider(previous[at]!);
      }
    }
    for (let i = 0, at = 0; i < parts; i++, at = next[at]!) tokens[i] = tokens[at]!;
    return parts;
  }
}

/** Arrays over the bytes of a piece. A part is named by its first byte. */
interface Workspace {
  readonly hashes: Int32Array;
  /** First byte of the part after and before. */
  readonly next: Int32Array;
  readonly previous: Int32Array;
  /** Rank of the token that a part and the next one would make; -1 if they make none. */
  readonly union: Int32Array;
  /** Entries of the lists: the part, and the next entry of the same rank. */
  readonly entryAt: Int32Array;
  readonly entryNext: Int32Array;
  /** The parts of the list at work. */
  readonly batch: Int32Array;
}

function makeWorkspace(length: number): Workspace {
  // Each byte is considered once, and two parts more after each merge.
  const entries = 3 * length;
  return {
    hashes: new Int32Array(length + 1),
    next: new Int32Array(length),
    previous: new Int32Array(length),
    union: new Int32Array(length),
    entryAt: new Int32Array(entries),
    entryNext: new Int32Array(entries),
    batch: new Int32Array(length),
  };
}

function pushHeap(heap: Int32Array, size: number, rank: number): void {
  let at = size;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (heap[parent]! <= rank) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = rank;
}

function popHeap(heap: Int32Array, size: number): void {
  const last = heap[size - 1]!;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= size - 1) break;
    if (child + 1 < size - 1 && heap[child + 1]! < heap[child]!) child++;
    if (heap[child]! >= last) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = last;
}
