/**
 * Server-sent events as bytes: cut where events end, however the stream is split, and written.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { eventText, SseSplitter } from "@tare/wire/internal/sse";
 *
 * const bytes = new TextEncoder().encode(eventText({ event: "note", data: "1" }));
 * const splitter = new SseSplitter();
 * assertEquals(splitter.events(bytes.subarray(0, 5)), []);
 * assertEquals(splitter.events(bytes.subarray(5)).map(({ name, data }) => [name, data]), [["note", "1"]]);
 * ```
 *
 * @module
 */

/** A server-sent event as it was sent. */
export interface RawEvent {
  /** Its bytes, the blank line at its end included. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its name; nothing where it has none. */
  readonly name?: string;
  /** Its id, likewise. */
  readonly id?: string;
  /** Its data; nothing for comments. */
  readonly data?: string;
}

/** The fields of a server-sent event. */
export interface SseMessage {
  /** Name by which a client resumes after this event. */
  readonly id?: number | string;
  /** Type of the event, without line breaks. Default: none, which clients read as `message`. */
  readonly event?: string;
  /** The data, without line breaks: JSON has none. */
  readonly data: string;
}

/** Returns a server-sent event as it is sent. */
export function eventText({ id, event, data }: SseMessage): string {
  return (event === undefined ? "" : `event: ${event}\n`) + (id === undefined ? "" : `id: ${id}\n`) +
    `data: ${data}\n\n`;
}

/** Returns the bytes of an event whose name is the type of its data. */
export function typedEvent(data: Readonly<Record<string, unknown>>): Uint8Array<ArrayBuffer> {
  return encoder.encode(eventText({ event: String(data.type), data: JSON.stringify(data) }));
}

const encoder = new TextEncoder();
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Cuts a stream where its events end. Takes time in proportion to its length, however its pieces come. */
export class SseSplitter {
  /** What has come of an event that isn't whole. */
  readonly #rest = new GrowingBytes();
  readonly #limits: { readonly maxEventBytes: number; readonly maxStreamBytes: number };
  #bytes = 0;
  #excess: string | undefined;

  /** Nothing has come. The limits are in bytes. Default: those of a model's reply, 16 MiB and 128 MiB. */
  constructor(
    { maxEventBytes = MAX_EVENT_BYTES, maxStreamBytes = MAX_STREAM_BYTES }: {
      readonly maxEventBytes?: number;
      readonly maxStreamBytes?: number;
    } = {},
  ) {
    this.#limits = { maxEventBytes, maxStreamBytes };
  }

  /** What of the stream is too long, once something is; what has come so far can still be had. */
  get excess(): string | undefined {
    return this.#excess;
  }

  /** The bytes of the events that are whole with these bytes. */
  cut(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const end = this.#lastEnd(bytes);
    let whole = bytes.subarray(0, end);
    if (end > 0 && this.#rest.length > 0) {
      this.#rest.add(whole);
      whole = this.#rest.take();
    }
    if (end < bytes.length) this.#rest.add(bytes.subarray(end));
    this.#measure(bytes.length, whole);
    return whole;
  }

  /** The events that are whole with these bytes; none once something is too long. */
  events(bytes: Uint8Array<ArrayBuffer>): RawEvent[] {
    const whole = this.cut(bytes);
    return this.#excess === undefined ? splitEvents(whole) : [];
  }

  /** What is left when the stream ends, which isn't a whole event. */
  end(): RawEvent | undefined {
    return this.#rest.length === 0 ? undefined : readEvent(this.#rest.take());
  }

  /** Behind which of these bytes the last whole event ends; 0 if none does. */
  #lastEnd(bytes: Uint8Array<ArrayBuffer>): number {
    const byte = (at: number) => at < 0 ? this.#rest.at(at) : bytes[at];
    for (
      let at = bytes.lastIndexOf(LINE_FEED);
      at >= 0;
      at = at === 0 ? -1 : bytes.lastIndexOf(LINE_FEED, at - 1)
    ) {
      let before = byte(at - 1);
      if (before === CARRIAGE_RETURN) before = byte(at - 2);
      if (before === LINE_FEED) return at + 1;
    }
    return 0;
  }

  #measure(more: number, whole: Uint8Array<ArrayBuffer>): void {
    const { maxEventBytes, maxStreamBytes } = this.#limits;
    this.#bytes += more;
    const isLong = (bytes: number) => bytes > maxEventBytes;
    if (
      isLong(this.#rest.length) ||
      (isLong(whole.length) && splitEvents(whole).some(({ bytes }) => isLong(bytes.length)))
    ) {
      this.#excess ??= `one of its events has more than ${inMebibytes(maxEventBytes)}`;
    } else if (this.#bytes > maxStreamBytes) {
      this.#excess ??= `its stream has more than ${inMebibytes(maxStreamBytes)}`;
    }
  }
}

/** The events that these bytes consist of, the last one perhaps without its end. */
export function splitEvents(bytes: Uint8Array<ArrayBuffer>): RawEvent[] {
  const events: RawEvent[] = [];
  let from = 0;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) {
    const next = bytes[at + 1] === CARRIAGE_RETURN ? at + 2 : at + 1;
    if (bytes[next] !== LINE_FEED) continue;
    events.push(readEvent(bytes.subarray(from, next + 1)));
    from = next + 1;
    at = next;
  }
  if (from < bytes.length) events.push(readEvent(bytes.subarray(from)));
  return events;
}

const decoder = new TextDecoder();

function readEvent(bytes: Uint8Array<ArrayBuffer>): RawEvent {
  const lines = decoder.decode(bytes).split(/\r?\n/);
  const data = valuesOf(lines, "data:");
  const name = valuesOf(lines, "event:").at(-1);
  const id = valuesOf(lines, "id:").at(-1);
  return {
    bytes,
    ...(name && { name }),
    ...(id && { id }),
    ...(data.length > 0 && { data: data.join("\n") }),
  };
}

function valuesOf(lines: readonly string[], field: string): string[] {
  const { length } = field;
  return lines.filter((line) => line.startsWith(field))
    .map((line) => line.slice(line[length] === " " ? length + 1 : length));
}

/** Bytes that come in pieces, however small, in memory in proportion to their number. */
export class GrowingBytes {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  /** How many there are. */
  get length(): number {
    return this.#length;
  }

  /** How they are too long for a reply that isn't streamed, as a sentence goes on: `has more than …`. */
  get excess(): string | undefined {
    return this.#length > MAX_EVENT_BYTES ? `has more than ${inMebibytes(MAX_EVENT_BYTES)}` : undefined;
  }

  /** The byte at a place, or from the end if that is negative; nothing where there is none. */
  at(place: number): number | undefined {
    const at = place < 0 ? this.#length + place : place;
    return at < this.#length ? this.#bytes[at] : undefined;
  }

  /** Adds bytes at the end. */
  add(bytes: Uint8Array<ArrayBuffer>): void {
    const length = this.#length + bytes.length;
    if (length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#bytes.length));
      grown.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#length);
    this.#length = length;
  }

  /** Gives all of them, and begins anew. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array();
    this.#length = 0;
    return bytes;
  }
}

/** How much is read at once, in bytes: an event of a reply has a few hundred. */
const READ_BYTES = 16_384;

/**
 * The bytes of a body as they come. A piece is valid until the next one is asked for: where the runtime can, all are read
 * into the same memory, which else would be as much for each event as for a long file. Nothing more comes once `signal`
 * is aborted; whoever stops before the end cancels the body.
 *
 * @throws what the body fails with.
 */
export async function* bodyPieces(
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  if (!body) return;
  const reader = readerOf(body);
  const stop = () => void reader.cancel().catch(() => {});
  signal?.addEventListener("abort", stop);
  try {
    while (!signal?.aborted) {
      const piece = await reader.read();
      if (!piece || signal?.aborted) return;
      if (piece.length > 0) yield piece;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    stop();
  }
}

/** What reads a body. */
interface PieceReader {
  /** Nothing at the end. */
  readonly read: () => Promise<Uint8Array<ArrayBuffer> | undefined>;
  readonly cancel: () => Promise<void>;
}

function readerOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): PieceReader {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    // One that a program made gives pieces of its own.
    const plain = body.getReader();
    return { read: async () => (await plain.read()).value, cancel: () => plain.cancel() };
  }
  let memory = new ArrayBuffer(READ_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(new Uint8Array(memory));
      if (done) return undefined;
      memory = value.buffer;
      return value;
    },
    cancel: () => reader.cancel(),
  };
}

/** Longest server-sent event in bytes, and longest reply that isn't streamed. */
export const MAX_EVENT_BYTES: number = 16 * 2 ** 20;

/** Longest stream of events in bytes: an event a token, of which providers make a few hundred bytes. */
const MAX_STREAM_BYTES: number = 128 * 2 ** 20;

/** A number of bytes as people say it. */
function inMebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20 * 100) / 100} MiB`;
}

/** Bytes of a stream that are kept to count what it says; what comes behind is taken for as dense. */
const COUNTED_BYTES = 2 ** 22;

/** Fields of a delta that hold nothing that a model has written. */
const UNWRITTEN: readonly string[] = ["type", "role", "id", "signature"];

/** What a streamed reply says, in any protocol: kept as it came, and read only if its usage is never reported. */
export class StreamedText {
  readonly #events = new GrowingBytes();
  #bytes = 0;

  /** Adds whole events. */
  add(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes += bytes.length;
    if (this.#events.length < COUNTED_BYTES) this.#events.add(bytes);
  }

  /** Returns how many tokens it has, estimated. */
  count(countTokens: (text: string) => number): number {
    const events = this.#events.take();
    const text = splitEvents(events).flatMap(({ data }) => data === undefined ? [] : writtenIn(data)).join(
      "",
    );
    const tokens = text === "" ? 0 : countTokens(text);
    const all = Math.ceil(tokens * this.#bytes / Math.max(1, events.length));
    this.#bytes = 0;
    return all;
  }
}

function writtenIn(data: string): string[] {
  const written: string[] = [];
  try {
    collectDeltas(JSON.parse(data), written);
  } catch {
    // An end mark, or an event that broke off.
  }
  return written;
}

function collectDeltas(value: unknown, written: string[]): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (key === "delta") collectWritten(inner, written);
    else collectDeltas(inner, written);
  }
}

function collectWritten(value: unknown, written: string[]): void {
  if (typeof value === "string") written.push(value);
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (!UNWRITTEN.includes(key) && !key.endsWith("_reason")) collectWritten(inner, written);
  }
}

/** Most calls of tools in one reply: models make some tens. */
export const MAX_CALLS = 256;

/** A reply is longer than it may be. Its message says by which limit, as a sentence goes on: `its stream has more than …`. */
export class ReplyTooLong extends Error {
  /** Always `ReplyTooLong`. */
  override readonly name = "ReplyTooLong";
}
