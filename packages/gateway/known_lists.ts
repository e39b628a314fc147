import { createHash, type Hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { KnownList, ListedItem, ListReader } from "@tare/wire";

/** What an item takes here, in bytes. */
const ITEM_BYTES = 100;

/** A list is compared in full only if it ends in these bytes where it should. */
const TAIL_BYTES = 64;

/** A list that was read. */
interface Entry {
  readonly kind: string;
  /** From the first byte to behind the last item. */
  readonly length: number;
  readonly tail: Uint8Array<ArrayBuffer>;
  /** SHA-256 of these bytes. */
  readonly digest: string;
  readonly items: readonly ListedItem[];
  /** The list that this one goes on from. */
  readonly before?: string | undefined;
}

/**
 * Remembers the lists of requests by their bytes, at most `maxBytes` bytes with the texts in them; those that were used
 * last. Each conversation has two, its newest and the one before: behind that another request may have gone on that
 * was no turn. One hash over the whole list takes a fifth of the time that looking for each of its items takes.
 */
export class KnownLists implements ListReader {
  /** By kind and digest. */
  readonly #lists: LRUCache<string, Entry>;
  /** Of what was found: its entry, and the hash of its bytes so far. */
  readonly #found = new WeakMap<KnownList, { readonly entry: Entry; readonly hash: Hash }>();

  /** Nothing is known yet. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#lists = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ length, items }) => length + ITEM_BYTES * items.length,
    });
  }

  /** What is known of the list that starts at this byte. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined {
    // Lists that end alike at the same place, as of sub-agents at the same work, are told apart by one hash.
    const lengths = new Set<number>();
    for (const entry of this.#lists.values()) {
      if (entry.kind === kind && endsIn(bytes, start + entry.length, entry.tail)) lengths.add(entry.length);
    }
    const hash = createHash("sha256");
    let known: KnownList | undefined;
    let from = start;
    for (const length of [...lengths].sort((a, b) => a - b)) {
      const end = start + length;
      hash.update(bytes.subarray(from, end));
      from = end;
      const entry = this.#lists.get(keyOf({ kind, digest: hash.copy().digest("base64") }));
      if (!entry) continue;
      known = { items: entry.items, end };
      this.#found.set(known, { entry, hash: hash.copy() });
    }
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
    if (bytes[end - 1] !== CLOSE_OBJECT) return;
    const found = known && this.#found.get(known);
    if (known && found?.entry.length === length) {
      this.#lists.get(keyOf(found.entry));
      return;
    }
    const hash = found?.hash ?? createHash("sha256");
    const digest = hash.update(bytes.subarray(known && found ? known.end : start, end)).digest("base64");
    const tail = bytes.slice(Math.max(start, end - TAIL_BYTES), end);
    const before = found && keyOf(found.entry);
    const entry: Entry = { kind, length, tail, digest, items, before };
    if (found?.entry.before !== undefined) this.#lists.delete(found.entry.before);
    this.#lists.set(keyOf(entry), entry);
  }
}

const CLOSE_OBJECT = 0x7d;

function keyOf({ kind, digest }: Pick<Entry, "kind" | "digest">): string {
  return `${kind} ${digest}`;
}

function endsIn(bytes: Uint8Array<ArrayBuffer>, end: number, tail: Uint8Array<ArrayBuffer>): boolean {
  if (end > bytes.length) return false;
  for (let at = 1; at <= tail.length; at++) if (bytes[end - at] !== tail[tail.length - at]) return false;
  return true;
}
