/** An encoding of js-tiktoken: packed ranks, and the pattern that splits text into pieces. */
export interface EncodingData {
  readonly bpe_ranks: string;
  readonly pat_str: string;
}

interface BytePairEncoder {
  readonly count: (text: string) => number;
  readonly encode: (text: string) => readonly number[];
}

/** Window for matching the pattern, in UTF-16 code units: V8 runs out of stack at about four million. */
const WINDOW_LENGTH = 2 ** 20;

const MAX_UNIT_BYTES = 3;

/** Longest piece for the reused buffer, in code units. */
const REUSED_LENGTH = 4096;

/** Size of the cache of token counts: number of pieces, and their longest length in code units. */
const KNOWN = { pieces: 8192, length: 64 };

/**
 * Returns an encoder. Special-token strings are ordinary text, and lone surrogates are encoded as U+FFFD.
 *
 * It is exact with one exception: a stretch of 2^20 UTF-16 code units without a space after a non-space is split, which may
 * add a token or two.
 */
export function bytePairEncoder({ bpe_ranks, pat_str }: EncodingData): BytePairEncoder {
  const table = new RankTable(bpe_ranks);
  const merger = new BytePairMerger(table);
  const pattern = new RegExp(pat_str, "uy");
  const reusable = makeBuffers(REUSED_LENGTH);
  // Names are repeated often, and merging takes ten times as long as a lookup.
  const known = new Map<string, number>();

  /** Encodes a piece into the sink; returns the number of its tokens. */
  const encodePiece = (piece: string, sink: number[] | undefined): number => {
    const { bytes, tokens } = piece.length <= REUSED_LENGTH ? reusable : makeBuffers(piece.length);
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
    // A copy of an ASCII piece, because a slice would retain the whole text.
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

function utf8(text: string, bytes: Uint8Array): number {
  // Most pieces are a few ASCII letters, and copying them is faster than encodeInto.
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

/** Returns the end of a window. No encoding has pieces with a space after a non-space. */
function windowEnd(text: string, start: number): number {
  const limit = start + WINDOW_LENGTH;
  for (let end = limit; end > start; end--) {
    if (text[end] === " " && /\S/.test(text[end - 1] ?? "")) return end;
  }
  return /[\uD800-\uDBFF]/.test(text[limit - 1] ?? "") ? limit - 1 : limit;
}

const REUSED_BYTES = 4096;

/**
 * Merges the bytes of a piece into tokens: repeatedly the adjacent pair with the lowest rank, the leftmost first.
 *
 * Searching the lowest rank after each merge would be O(n²), minutes for a long run of one letter. Here a list per rank
 * contains the candidate pairs, and a heap the ranks: O(n log n). A rank's list is processed at once, which relies on a
 * property of trained encodings: each token consists of two of lower rank, so that no merge creates a lower rank.
 *
 * Every index is in range by construction, hence the `!`.
 */
export class BytePairMerger {
  readonly #table: RankTable;
  readonly #byteRanks: Int32Array;
  readonly #reusable: Workspace = makeWorkspace(REUSED_BYTES);
  /** First and last entry of each rank's list; -1 if empty. */
  readonly #heads: Int32Array;
  readonly #tails: Int32Array;
  readonly #heap: Int32Array;

  constructor(table: RankTable) {
    this.#table = table;
    this.#byteRanks = Int32Array.from({ length: 256 }, (_, byte) => table.rank(Uint8Array.of(byte), 1));
    this.#heads = new Int32Array(table.size).fill(-1);
    this.#tails = new Int32Array(table.size);
    this.#heap = new Int32Array(table.size);
  }

  /** Merges the first `length` bytes, writes the tokens' ranks to `tokens` (of at least `length`), and returns their number. */
  merge(bytes: Uint8Array, length: number, tokens: Int32Array): number {
    const table = this.#table;
    const heads = this.#heads;
    const tails = this.#tails;
    const heap = this.#heap;
    const space = length <= REUSED_BYTES ? this.#reusable : makeWorkspace(length);
    const { hashes, next, previous, union, entryAt, entryNext, batch } = space;
    let entries = 0;
    let waitingRanks = 0;

    /** Lists the union of the part at this byte and the next one, if it is a token. */
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
      // During merging, tokens[at] is the rank of the part that starts at this byte.
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
        // Invalidated by an overlapping merge.
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

/** Arrays indexed by byte. A part is identified by its first byte. */
interface Workspace {
  readonly hashes: Int32Array;
  /** First byte of the next and of the previous part. */
  readonly next: Int32Array;
  readonly previous: Int32Array;
  /** Rank of the union of a part and the next one; -1 if it is no token. */
  readonly union: Int32Array;
  /** List entries: the part, and the next entry of the same rank. */
  readonly entryAt: Int32Array;
  readonly entryNext: Int32Array;
  readonly batch: Int32Array;
}

function makeWorkspace(length: number): Workspace {
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

/**
 * Ranks of an encoding's tokens in one open-addressed hash table over the tokens' bytes: two hundred thousand tokens in a
 * few typed arrays. Hashes are polynomial, so that a slice's hash follows from two prefix hashes in constant time.
 *
 * Every index is in range by construction, hence the `!`.
 */
export class RankTable {
  readonly size: number;
  readonly #longest: number;
  /** Bytes of all tokens; those of rank r are from `#starts[r]` to `#starts[r + 1]`. */
  readonly #bytes: Uint8Array;
  readonly #starts: Int32Array;
  /** Hash and rank + 1 of each slot; 0 if free. */
  readonly #slots: Int32Array;
  readonly #slotBits: number;
  readonly #powers: Int32Array;

  /** Parses js-tiktoken's packed ranks: lines of `! <first rank> <base64> <base64> …`. */
  constructor(packed: string) {
    const { bytes, starts } = unpack(packed);
    this.#bytes = bytes;
    this.#starts = starts;
    this.size = starts.length - 1;
    this.#longest = starts.reduce(
      (longest, end, i) => i === 0 ? 0 : Math.max(longest, end - starts[i - 1]!),
      0,
    );
    this.#powers = new Int32Array(this.#longest + 1).fill(1);
    for (let i = 1; i <= this.#longest; i++) this.#powers[i] = Math.imul(this.#powers[i - 1]!, HASH_BASE);
    this.#slotBits = 33 - Math.clz32(this.size);
    this.#slots = new Int32Array(2 << this.#slotBits);
    for (let rank = 0; rank < this.size; rank++) this.#insert(rank);
  }

  /** Returns the rank of the first `length` bytes; -1 if they are no token. */
  rank(bytes: Uint8Array, length: number): number {
    if (length > this.#longest) return -1;
    let hash = 0;
    for (let i = 0; i < length; i++) hash = extendHash(hash, bytes[i]!);
    return this.#find(bytes, 0, length, hash);
  }

  hashPrefixes(bytes: Uint8Array, length: number, hashes: Int32Array): void {
    let hash = 0;
    hashes[0] = hash;
    for (let i = 0; i < length; i++) hashes[i + 1] = hash = extendHash(hash, bytes[i]!);
  }

  /** Returns the rank of a slice by its prefix hashes; -1 if it is no token. */
  sliceRank(bytes: Uint8Array, hashes: Int32Array, start: number, end: number): number {
    const length = end - start;
    if (length > this.#longest) return -1;
    const hash = hashes[end]! - Math.imul(hashes[start]!, this.#powers[length]!) | 0;
    return this.#find(bytes, start, end, hash);
  }

  #insert(rank: number) {
    const start = this.#starts[rank]!;
    const end = this.#starts[rank + 1]!;
    if (start === end) return;
    let hash = 0;
    for (let i = start; i < end; i++) hash = extendHash(hash, this.#bytes[i]!);
    let slot = this.#firstSlot(hash);
    while (this.#slots[slot + 1] !== 0) slot = this.#nextSlot(slot);
    this.#slots[slot] = hash;
    this.#slots[slot + 1] = rank + 1;
  }

  #find(bytes: Uint8Array, start: number, end: number, hash: number): number {
    for (let slot = this.#firstSlot(hash);; slot = this.#nextSlot(slot)) {
      const rank = this.#slots[slot + 1]! - 1;
      if (rank < 0 || this.#slots[slot] === hash && this.#equals(rank, bytes, start, end)) return rank;
    }
  }

  #equals(rank: number, bytes: Uint8Array, start: number, end: number): boolean {
    let at = this.#starts[rank]!;
    if (this.#starts[rank + 1]! - at !== end - start) return false;
    for (let i = start; i < end; i++) if (bytes[i] !== this.#bytes[at++]) return false;
    return true;
  }

  /** Fibonacci hashing, which uses the well-mixed upper bits. */
  #firstSlot(hash: number): number {
    return Math.imul(hash, 0x9e3779b1) >>> 32 - this.#slotBits << 1;
  }

  #nextSlot(slot: number): number {
    return slot + 2 & this.#slots.length - 1;
  }
}

/** Base of the polynomial hash: the prime of FNV-1. */
const HASH_BASE = 0x01000193;

function extendHash(hash: number, byte: number): number {
  return Math.imul(hash, HASH_BASE) + byte | 0;
}

const SPACE = " ".charCodeAt(0);
const PADDING = "=".charCodeAt(0);
const BASE64_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function unpack(packed: string): { readonly bytes: Uint8Array; readonly starts: Int32Array } {
  const sextets = new Uint8Array(128);
  for (let i = 0; i < 64; i++) sextets[BASE64_ALPHABET.charCodeAt(i)] = i;
  const bytes = new Uint8Array(packed.length);
  const starts: number[] = [];
  let length = 0;
  for (const line of packed.split("\n")) {
    const [, firstRank] = line.split(" ", 2);
    if (firstRank === undefined) continue;
    // Ranks of special tokens become tokens without bytes.
    while (starts.length < Number(firstRank)) starts.push(length);
    let bits = 0;
    let held = 0;
    for (let i = line.indexOf(firstRank) + firstRank.length; i < line.length; i++) {
      const code = line.charCodeAt(i);
      if (code === SPACE) {
        starts.push(length);
        held = 0;
      } else if (code !== PADDING) {
        bits = bits << 6 | sextets[code]!;
        held += 6;
        if (held >= 8) bytes[length++] = bits >> (held -= 8);
      }
    }
  }
  starts.push(length);
  return { bytes: bytes.slice(0, length), starts: Int32Array.from(starts) };
}

/** Returns a loader that loads each key once and returns the same promise. A failed load is retried by the next call. */
export function loadOnce<Key, Value>(load: (key: Key) => Promise<Value>): (key: Key) => Promise<Value> {
  const loads = new Map<Key, Promise<Value>>();
  return (key) => {
    const known = loads.get(key);
    if (known) return known;
    const loading = load(key);
    loads.set(key, loading);
    loading.catch(() => loads.delete(key));
    return loading;
  };
}
