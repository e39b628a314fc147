/**
 * The tokens of an encoding and their ranks: one open-addressed hash table over the tokens' bytes. Two hundred
 * thousand tokens lie in a few flat arrays, built without a string, a `Map` entry or an object for each.
 *
 * Hashes are polynomial, so that the hash of any slice follows from the hashes of two prefixes in constant time.
 *
 * Every index in here is in range by construction, which the compiler cannot see: hence the `!`.
 */
export class RankTable {
  /** Number of ranks: the highest rank plus one. */
  readonly size: number;
  /** Length of the longest token, in bytes. */
  readonly #longest: number;
  /** Bytes of all tokens; those of rank r go from `#starts[r]` to `#starts[r + 1]`. */
  readonly #bytes: Uint8Array;
  readonly #starts: Int32Array;
  /** For each slot a hash and a rank + 1; zero there marks a free slot. */
  readonly #slots: Int32Array;
  readonly #slotBits: number;
  /** Powers of the hash base. */
  readonly #powers: Int32Array;

  /** Unpacks the text in which js-tiktoken ships ranks: lines of `! <first rank> <base64> <base64> …`. */
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
    // At least half of the slots stay free.
    this.#slotBits = 33 - Math.clz32(this.size);
    this.#slots = new Int32Array(2 << this.#slotBits);
    for (let rank = 0; rank < this.size; rank++) this.#insert(rank);
  }

  /** Rank of the token that consists of the first `length` bytes; -1 if there is none. */
  rank(bytes: Uint8Array, length: number): number {
    if (length > this.#longest) return -1;
    let hash = 0;
    for (let i = 0; i < length; i++) hash = extendHash(hash, bytes[i]!);
    return this.#find(bytes, 0, length, hash);
  }

  /** Writes the hash of each prefix of `bytes` to `hashes`, that of the empty one first. */
  hashPrefixes(bytes: Uint8Array, length: number, hashes: Int32Array): void {
    let hash = 0;
    hashes[0] = hash;
    for (let i = 0; i < length; i++) hashes[i + 1] = hash = extendHash(hash, bytes[i]!);
  }

  /** Rank of the token that consists of a slice of `bytes`, whose prefixes have these hashes; -1 if there is none. */
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

  /** Fibonacci hashing: the upper bits of the product are the well mixed ones. */
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
    // Ranks that no ordinary token has (a special token has them) become tokens without bytes.
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

/**
 * Makes a loader that loads each key once and hands everybody the same promise. A load that failed is forgotten,
 * so that the next caller tries again.
 */
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
