import { Buffer } from "node:buffer";
import { LRUCache } from "lru-cache";
import type { KnownList, ListReader } from "@tare/wire";

/** What an item takes here, in bytes. */
const ITEM_BYTES = 100;

/** A list is compared in full only if it ends in these bytes where it should. */
const TAIL_BYTES = 64;

/** A list that was read. */
interface Entry {
  readonly kind: string;
  /** From the first byte to behind the last item; of a list that another goes on from, those of that one. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly items: KnownList["items"];
  /** The list that this one goes on from. */
  readonly before?: number | undefined;
}

/**
 * Remembers the lists of requests by their bytes, at most `maxBytes` bytes with the texts in them; those that were used
 * last. Each conversation has two, its newest and the one before: behind that another request may have gone on that
 * was no turn. To compare the bytes takes a fortieth of the time that hashing them takes.
 */
export class KnownLists implements ListReader {
  /** By a number of their own. */
  readonly #lists: LRUCache<number, Entry>;
  /** The numbers of what was found. */
  readonly #found = new WeakMap<KnownList, number>();
  #kept = 0;

  /** Nothing is known yet. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#lists = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes, items }) => bytes.length + ITEM_BYTES * items.length,
    });
  }

  /** What is known of the list that starts at this byte: the longest that it begins with. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined {
    let found: { readonly number: number; readonly entry: Entry } | undefined;
    for (const [number, entry] of this.#lists.entries()) {
      if (entry.kind !== kind || entry.bytes.length <= (found?.entry.bytes.length ?? 0)) continue;
      if (beginsWith(bytes, start, entry.bytes)) found = { number, entry };
    }
    if (!found) return undefined;
    const { number, entry } = found;
    const known: KnownList = { items: entry.items, end: start + entry.bytes.length };
    this.#lists.get(number);
    this.#found.set(known, number);
    return known;
  }

  /** Remembers a list. */
  keep(
    bytes: Uint8Array<ArrayBuffer>,
    { start, kind, items, known }: Parameters<ListReader["keep"]>[1],
  ): void {
    const { end: length = 0 } = items.at(-1) ?? {};
    const end = start + length;
    // A number could go on.
    if (bytes[end - 1] !== CLOSE_OBJECT || known?.end === end) return;
    const before = known && this.#found.get(known);
    const entry = before === undefined ? undefined : this.#lists.get(before);
    if (before !== undefined && entry) {
      if (entry.before !== undefined) this.#lists.delete(entry.before);
      // What both begin with is held once.
      const { bytes: { length }, before: _, ...rest } = entry;
      this.#lists.set(before, { ...rest, bytes: bytes.subarray(start, start + length) });
    }
    this.#lists.set(++this.#kept, { kind, bytes: bytes.subarray(start, end), items, before });
  }
}

const CLOSE_OBJECT = 0x7d;

/** Whether this list stands there. */
function beginsWith(
  bytes: Uint8Array<ArrayBuffer>,
  start: number,
  list: Uint8Array<ArrayBuffer>,
): boolean {
  const end = start + list.length;
  if (end > bytes.length) return false;
  for (let at = 1; at <= Math.min(TAIL_BYTES, list.length); at++) {
    if (bytes[end - at] !== list[list.length - at]) return false;
  }
  return Buffer.compare(bytes.subarray(start, end), list) === 0;
}
