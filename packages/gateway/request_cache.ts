import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { HeldPrompts } from "@tare/planner/internal/parts";
import {
  type ItemPart,
  type JsonReader,
  type ListReader,
  type Protocol,
  readJsonAt,
  type RequestReaders,
} from "@tare/wire/internal";
import { LRUCache } from "lru-cache";

type KnownList = NonNullable<ReturnType<ListReader["find"]>>;

const ENTRY_BYTES = 600;

/** Shares of the memory; their sum is 1. */
const SHARES = {
  sessions: 14 / 32,
  items: 8 / 32,
  lists: 6 / 32,
  prompts: 1 / 32,
  tools: 1 / 32,
  referred: 1 / 32,
  responses: 1 / 32,
};

export interface Followed {
  readonly upstreamId: string;
  /** Answers to recalls that the upstream waits for and the client doesn't know of. */
  readonly owed: readonly string[];
}

interface FollowedResponse extends Followed {
  readonly sessionId: string;
}

/**
 * Caches parsed requests and the prompts that providers hold. With the sessions it takes at most `maxBytes` bytes; the
 * least recently used entries are evicted first.
 */
export class RequestCache {
  readonly sessionBytes: number;
  readonly prompts: HeldPrompts;
  readonly #items: JsonCache<readonly ItemPart[]>;
  readonly #lists: ListCache;
  readonly #tools: JsonCache<ReturnType<Protocol["readTool"]>>;
  readonly #referred: LRUCache<string, readonly ItemPart[]>;
  readonly #responses: LRUCache<string, FollowedResponse>;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    const share = (name: keyof typeof SHARES) => Math.max(1, Math.floor(SHARES[name] * maxBytes));
    this.sessionBytes = share("sessions");
    this.prompts = new HeldPrompts({ maxBytes: share("prompts") });
    this.#items = new JsonCache({ maxBytes: share("items") });
    this.#lists = new ListCache({ maxBytes: share("lists") });
    this.#tools = new JsonCache({ maxBytes: share("tools") });
    this.#referred = new LRUCache({ maxSize: share("referred") });
    this.#responses = new LRUCache({ maxSize: share("responses") });
  }

  readers(client: string): RequestReaders {
    return {
      lists: this.#lists,
      items: this.#items,
      tools: this.#tools,
      referred: (id) => this.#referred.get(`${client} ${id}`),
    };
  }

  refer(client: string, id: string, parts: readonly ItemPart[]): void {
    const { length } = JSON.stringify(parts.map(({ message }) => message));
    this.#referred.set(`${client} ${id}`, parts, { size: ENTRY_BYTES + 2 * length });
  }

  followed(client: string, id: string): FollowedResponse | undefined {
    return this.#responses.get(`${client} ${id}`);
  }

  follow(client: string, id: string, response: FollowedResponse): void {
    const size = ENTRY_BYTES + 2 * response.owed.join().length;
    this.#responses.set(`${client} ${id}`, response, { size });
  }
}

/**
 * Caches parsed JSON by its bytes, so that only the new items of a repeated history are parsed. Equal bytes give the
 * same objects, which are keys of other caches. Takes at most `maxBytes` bytes of text; the least recently
 * used are evicted first.
 */
export class JsonCache<T> implements JsonReader<T> {
  readonly #pieces: LRUCache<string, ReturnType<JsonReader<T>["read"]>>;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#pieces = new LRUCache({ maxSize: maxBytes });
  }

  /** @throws {SyntaxError} if the piece isn't JSON. @throws the error of `read`. */
  read(
    bytes: Uint8Array<ArrayBuffer>,
    { start, end, kind, read, spelling }: Parameters<JsonReader<T>["read"]>[1],
  ): ReturnType<JsonReader<T>["read"]> {
    const bytesKey = keyOf(kind, bytes.subarray(start, end));
    const known = this.#pieces.get(bytesKey);
    if (known) return known;
    const json = readJsonAt(bytes, { start, end });
    const size = ENTRY_BYTES + end - start;
    let piece: ReturnType<JsonReader<T>["read"]> = { key: bytesKey, value: read(json) };
    const spelled = spelling?.spelled(piece.value);
    if (spelling && spelled) {
      const names = spelled.map((json) => keyOf(`${kind} spelled`, json));
      const key = names.length === 1 ? names[0]! : keyOf(`${kind} parts`, names.join());
      const other = this.#pieces.get(key);
      const value = spelling.named(piece.value, names);
      piece = { key, value: other ? spelling.adopt(value, other.value) : value };
      this.#pieces.set(key, piece, { size: ENTRY_BYTES });
    }
    this.#pieces.set(bytesKey, piece, { size });
    return piece;
  }
}

function keyOf(kind: string, piece: string | Uint8Array<ArrayBuffer>): string {
  return createHash("sha256").update(kind).update(piece).digest("base64");
}

const ITEM_BYTES = 100;

/** Bytes at the end of a list that are compared first. */
const TAIL_BYTES = 64;

/** Hashed bytes before the mark of a list: many lists begin with the same instructions. */
const MARKED_BYTES = 4_096;

interface Entry {
  readonly kind: string;
  /** Its bytes up to the end of the last item; part of a longer list that continues it. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly items: KnownList["items"];
  readonly before?: number | undefined;
  /** Whether another list continues it, which counts its bytes. Default: false. */
  readonly isContinued?: boolean;
  readonly print: number;
}

/**
 * Caches parsed lists by their bytes, at most `maxBytes`; the least recently used are evicted first. Each conversation
 * has two: a request that is no turn may have continued the newest. Comparing bytes is forty times as fast as hashing
 * them; a hash of the bytes before a mark selects candidates, so that lookups don't depend on the number of lists.
 */
export class ListCache implements ListReader {
  readonly #lists: LRUCache<number, Entry>;
  readonly #marked = new Map<number, Map<number, Set<number>>>();
  readonly #found = new WeakMap<KnownList, number>();
  #added = 0;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#lists = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes, items, isContinued }) =>
        ITEM_BYTES * items.length + (isContinued ? 0 : bytes.length),
      dispose: (entry, number) => this.#unmark(entry, number),
      noDisposeOnSet: true,
    });
  }

  find(
    bytes: Uint8Array<ArrayBuffer>,
    start: number,
    kind: string,
  ): KnownList | undefined {
    const found = this.#longest(bytes, start, kind);
    if (!found) return undefined;
    const { number, entry } = found;
    const known: KnownList = {
      items: entry.items,
      end: start + entry.bytes.length,
    };
    this.#lists.get(number);
    this.#found.set(known, number);
    return known;
  }

  keep(
    bytes: Uint8Array<ArrayBuffer>,
    { start, kind, items, known }: Parameters<ListReader["keep"]>[1],
  ): void {
    const { end: length = 0 } = items.at(-1) ?? {};
    const end = start + length;
    // A number could continue after its last byte.
    if (bytes[end - 1] !== CLOSE_OBJECT || known?.end === end) return;
    const before = known && this.#found.get(known);
    const entry = before === undefined ? undefined : this.#lists.get(before);
    if (before !== undefined && entry) {
      if (entry.before !== undefined) this.#lists.delete(entry.before);
      const { bytes: { length }, before: _, ...rest } = entry;
      this.#lists.set(before, { ...rest, bytes: bytes.subarray(start, start + length), isContinued: true });
    }
    const mark = markOf(length);
    const print = printOf(bytes, start, mark);
    const number = ++this.#added;
    this.#lists.set(number, { kind, bytes: bytes.subarray(start, end), items, before, print });
    // A list larger than the cache is not added.
    if (!this.#lists.has(number)) return;
    const prints = this.#marked.get(mark) ?? new Map<number, Set<number>>();
    this.#marked.set(mark, prints.set(print, (prints.get(print) ?? new Set()).add(number)));
  }

  #longest(
    bytes: Uint8Array<ArrayBuffer>,
    start: number,
    kind: string,
  ): { readonly number: number; readonly entry: Entry } | undefined {
    let found: { readonly number: number; readonly entry: Entry } | undefined;
    for (const [mark, prints] of this.#marked) {
      // A list is shorter than twice its mark.
      if (start + mark > bytes.length || 2 * mark <= (found?.entry.bytes.length ?? 0)) continue;
      for (const number of prints.get(printOf(bytes, start, mark)) ?? []) {
        const entry = this.#lists.peek(number);
        if (!entry || entry.kind !== kind || entry.bytes.length <= (found?.entry.bytes.length ?? 0)) continue;
        if (beginsWith(bytes, start, entry.bytes)) found = { number, entry };
      }
    }
    return found;
  }

  #unmark({ bytes, print }: Entry, number: number): void {
    const mark = markOf(bytes.length);
    const prints = this.#marked.get(mark);
    const numbers = prints?.get(print);
    numbers?.delete(number);
    if (numbers?.size === 0) prints?.delete(print);
    if (prints?.size === 0) this.#marked.delete(mark);
  }
}

/** Returns the mark of a list of this length: the largest power of two within it. */
function markOf(length: number): number {
  return 2 ** Math.floor(Math.log2(length));
}

/** Returns a hash of the bytes before a mark (FNV-1a: Fowler, Noll, Vo). */
function printOf(bytes: Uint8Array<ArrayBuffer>, start: number, mark: number): number {
  let hash = 0x811c9dc5;
  for (let at = Math.max(0, mark - MARKED_BYTES); at < mark; at++) {
    hash = Math.imul(hash ^ bytes[start + at]!, 0x01000193);
  }
  return hash;
}

const CLOSE_OBJECT = 0x7d;

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
