import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { countMessageTokens, hashBytes, hashText } from "@tare/messages/internal";
import { PrefixCache, type PromptUnit } from "@tare/planner/internal/parts";
import {
  type ItemPart,
  type JsonReader,
  type ListReader,
  type Protocol,
  readJsonAt,
  type RequestReaders,
} from "@tare/wire/internal";
import { LRUCache } from "lru-cache";

/** Items with which a list starts like one that was read before. */
type KnownList = NonNullable<ReturnType<ListReader["find"]>>;

/** What is remembered takes beside its texts, in bytes. */
const ENTRY_BYTES = 600;

/** How much of the memory each may take, in all 1. */
const SHARES = {
  sessions: 14 / 32,
  items: 8 / 32,
  lists: 6 / 32,
  prompts: 1 / 32,
  tools: 1 / 32,
  referred: 1 / 32,
  responses: 1 / 32,
};

/** A response that a client follows, as the upstream knows it. */
export interface Followed {
  readonly upstreamId: string;
  /** Items that the upstream waits for and the client doesn't know of: answers to recalls. */
  readonly owed: readonly string[];
}

/** A response that another may follow. */
interface FollowedResponse extends Followed {
  readonly sessionId: string;
}

/**
 * What a gateway remembers beside its sessions, at most `maxBytes` bytes with them. What was used longest ago is
 * forgotten first: a piece of JSON is read again, a response that is followed is taken for one of somebody else.
 */
export class Memory {
  /** Most bytes for the sessions. */
  readonly sessionBytes: number;
  /** The prompts that providers have read. */
  readonly prompts: HeldPrompts;
  /** Items of requests and replies. */
  readonly #items: KnownJson<readonly ItemPart[]>;
  readonly #lists: KnownLists;
  readonly #tools: KnownJson<ReturnType<Protocol["readTool"]>>;
  readonly #referred: LRUCache<string, readonly ItemPart[]>;
  readonly #responses: LRUCache<string, FollowedResponse>;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    const share = (name: keyof typeof SHARES) => Math.max(1, Math.floor(SHARES[name] * maxBytes));
    this.sessionBytes = share("sessions");
    this.prompts = new HeldPrompts({ maxBytes: share("prompts") });
    this.#items = new KnownJson({ maxBytes: share("items") });
    this.#lists = new KnownLists({ maxBytes: share("lists") });
    this.#tools = new KnownJson({ maxBytes: share("tools") });
    this.#referred = new LRUCache({ maxSize: share("referred") });
    this.#responses = new LRUCache({ maxSize: share("responses") });
  }

  /** What requests of this client are read with. */
  readers(client: string): RequestReaders {
    return {
      lists: this.#lists,
      items: this.#items,
      tools: this.#tools,
      referred: (id) => this.#referred.get(`${client} ${id}`),
    };
  }

  /** A reply to this client has this item. */
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
 * Remembers what was read of pieces of JSON by their bytes. A client that sends its whole history again so costs only
 * what is new of it: all that others remember of a message object (tokens, hashes, names) is found again too.
 * Keeps what takes at most `maxBytes` bytes of memory, as far as texts go; what was used last.
 */
export class KnownJson<T> implements JsonReader<T> {
  readonly #pieces: LRUCache<string, ReturnType<JsonReader<T>["read"]>>;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#pieces = new LRUCache({ maxSize: maxBytes });
  }

  /** The piece at this place. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
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
    const said = spelling?.said(piece.value);
    if (spelling && said) {
      const names = said.map((json) => keyOf(`${kind} said`, json));
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

/** What an item takes here, in bytes. */
const ITEM_BYTES = 100;

/** A list is compared in full only if it ends in these bytes where it should. */
const TAIL_BYTES = 64;

/** So many bytes in front of a list's mark tell it from others: conversations may begin with the same instructions. */
const MARKED_BYTES = 4_096;

/** A list that was read. */
interface Entry {
  readonly kind: string;
  /** From the first byte to behind the last item; of a list that another goes on from, those of that one. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly items: KnownList["items"];
  /** The list that this one goes on from. */
  readonly before?: number | undefined;
  /** Whether another list goes on from it, which holds its bytes. Default: none does. */
  readonly isContinued?: boolean;
  /** What stands in front of its mark, hashed. */
  readonly print: number;
}

/**
 * Remembers the lists of requests by their bytes, at most `maxBytes` bytes with the texts in them; those that were used
 * last. Each conversation has two, its newest and the one before: behind that another request may have gone on that
 * was no turn. To compare the bytes takes a fortieth of the time that hashing them takes; which are worth comparing tell
 * the bytes in front of a mark, so that a request costs the same however many lists there are.
 */
export class KnownLists implements ListReader {
  readonly #lists: LRUCache<number, Entry>;
  /** The numbers by mark, and by what stands in front of that. */
  readonly #marked = new Map<number, Map<number, Set<number>>>();
  readonly #found = new WeakMap<KnownList, number>();
  #kept = 0;

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#lists = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: ({ bytes, items, isContinued }) =>
        ITEM_BYTES * items.length + (isContinued ? 0 : bytes.length),
      dispose: (entry, number) => this.#unmark(entry, number),
      noDisposeOnSet: true,
    });
  }

  /** What is known of the list that starts at this byte: the longest that it begins with. */
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
      this.#lists.set(before, { ...rest, bytes: bytes.subarray(start, start + length), isContinued: true });
    }
    const mark = markOf(length);
    const print = printOf(bytes, start, mark);
    const number = ++this.#kept;
    this.#lists.set(number, { kind, bytes: bytes.subarray(start, end), items, before, print });
    // One that is larger than all may be isn't remembered.
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
      // Behind its mark a list has less than as much again.
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

/** Within a list of this length: the farthest of the places that lists are told by, whatever follows. */
function markOf(length: number): number {
  return 2 ** Math.floor(Math.log2(length));
}

/** What stands in front of a mark of a list that starts there, hashed by FNV-1a (Fowler, Noll, Vo). */
function printOf(bytes: Uint8Array<ArrayBuffer>, start: number, mark: number): number {
  let hash = 0x811c9dc5;
  for (let at = Math.max(0, mark - MARKED_BYTES); at < mark; at++) {
    hash = Math.imul(hash ^ bytes[start + at]!, 0x01000193);
  }
  return hash;
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

/** What a prompt takes here for each of its messages and tools, in bytes. */
const UNIT_BYTES = 200;

/** Characters of the instructions and first words of a prompt that are told apart, about a block of a cache. */
const PIECE_CHARS = 500;

/** Longest text, in UTF-16 code units, each of whose pieces is counted. */
const COUNTED_CHARS = 2 ** 16;

/** Messages that begin so far behind the beginning of a prompt, in UTF-16 code units, aren't told apart by pieces. */
const PIECED_CHARS = 2 ** 18;

/** How many messages at the beginning of a prompt are told apart by pieces. */
function piecedMessages(messages: readonly Message[]): number {
  let chars = 0;
  const end = messages.findIndex(({ content }) => {
    const isFar = chars > PIECED_CHARS;
    chars += contentText(content).length;
    return isFar;
  });
  return end < 0 ? messages.length : end;
}

/** A prompt that is sent. */
export interface HeldPrompt {
  readonly client: string;
  readonly model: string;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  /** Behind how many messages the provider is asked to cache it; 0 is behind the tools. Absent: it caches all of it. */
  readonly ends: readonly number[] | undefined;
  readonly countTokens: CountTokens;
}

/** What a provider holds of a prompt, as it is stored. */
export interface StoredPrompt {
  readonly model: string;
  /** Hashes of its units. */
  readonly units: readonly PromptUnit["hash"][];
  /** Behind how many units the provider was asked to cache it. Absent: it caches all of it. */
  readonly ends?: readonly number[];
}

/**
 * The prompts that providers have read, whatever session they were of, as their caches know them: up to the marks where
 * a request has some. Takes at most `maxBytes` bytes; what was used longest ago is forgotten first.
 */
export class HeldPrompts {
  readonly #cache: PrefixCache;
  readonly #pieces = new WeakMap<Message, readonly PromptUnit[]>();
  /** Of prompts that are being sent. */
  readonly #units = new WeakMap<HeldPrompt, readonly PromptUnit[]>();

  constructor({ maxBytes }: { readonly maxBytes: number }) {
    // How long each is held a session finds out by itself.
    const rules = { minTokens: 0, blockTokens: 1, ttlMs: Infinity };
    this.#cache = new PrefixCache(rules, { maxUnits: Math.ceil(maxBytes / UNIT_BYTES) });
  }

  /** Tokens with which a prompt begins like one that was read, counted here. */
  held(prompt: HeldPrompt): number {
    return this.#cache.held(this.#unitsOf(prompt), 0, endsOf(prompt));
  }

  /** A provider has read it, at this time in milliseconds since the epoch. */
  read(prompt: HeldPrompt, nowMs: number): void {
    this.#cache.store(this.#unitsOf(prompt), nowMs, endsOf(prompt));
  }

  /** Returns what is stored of a prompt that was read. */
  stored(prompt: HeldPrompt): StoredPrompt {
    const units = this.#unitsOf(prompt);
    const hashes = units.slice(1).map(({ hash }) => hash);
    return { model: prompt.model, units: hashes, ...(prompt.ends && { ends: this.#cache.endsIn(units) }) };
  }

  /** Takes in what was stored of a client's prompt that was read at this time. */
  restore(client: string, { model, units, ends }: StoredPrompt, atMs: number): void {
    const all = [`${client} ${model}`, ...units].map((hash) => ({ hash, tokens: 0 }));
    this.#cache.store(all, atMs, ends);
  }

  #unitsOf(prompt: HeldPrompt): readonly PromptUnit[] {
    const known = this.#units.get(prompt);
    if (known) return known;
    const { client, model, tools, messages, ends, countTokens } = prompt;
    const answer = messages.findIndex(({ role }) => role === "assistant");
    const opening = answer < 0 ? messages.length : answer;
    // Where no mark ends what is cached, all that two texts begin with is shared.
    const whole = ends ? 0 : piecedMessages(messages.slice(0, opening));
    const units = [
      { hash: `${client} ${model}`, tokens: 0 },
      ...PrefixCache.unitsOf({ tools, messages: [] }, countTokens),
      ...messages.slice(0, whole).flatMap((message) => this.#piecesOf(message, countTokens)),
      ...PrefixCache.unitsOf({ tools: [], messages: messages.slice(whole) }, countTokens),
    ];
    this.#units.set(prompt, units);
    return units;
  }

  /** A message as the pieces of its text that end within it, and the rest. */
  #piecesOf(message: Message, countTokens: CountTokens): readonly PromptUnit[] {
    const known = this.#pieces.get(message);
    if (known) return known;
    const { role, content } = message;
    const isText = typeof content === "string" || content?.every(({ type }) => type === "text");
    const text = isText ? contentText(content) : "";
    const pieces: PromptUnit[] = [];
    const all = countMessageTokens(message, countTokens);
    let left = all;
    // Of what is long each piece is taken for as dense as the whole: to count thousands of them would hold others up.
    const mean = text.length > COUNTED_CHARS ? Math.floor(all * PIECE_CHARS / text.length) : undefined;
    for (let end = PIECE_CHARS; end < text.length; end += PIECE_CHARS) {
      const piece = text.slice(end - PIECE_CHARS, end);
      const tokens = Math.min(left, mean ?? countTokens(piece));
      pieces.push({ hash: hashText(`${role} ${piece}`), tokens });
      left -= tokens;
    }
    pieces.push({ hash: hashBytes(message), tokens: left });
    this.#pieces.set(message, pieces);
    return pieces;
  }
}

function endsOf({ tools, ends }: HeldPrompt): readonly number[] | undefined {
  return ends?.map((end) => 1 + tools.length + end);
}
