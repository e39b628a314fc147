/**
 * Splitting and writing of server-sent events as bytes.
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

/** A server-sent event as received. */
export interface RawEvent {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly name?: string;
  readonly id?: string;
  /** Absent for comments. */
  readonly data?: string;
}

/** Fields of a server-sent event. */
export interface SseMessage {
  /** Id to resume after. */
  readonly id?: number | string;
  /** Default: none, read as `message`. */
  readonly event?: string;
  /** Without line breaks. */
  readonly data: string;
}

/** Returns the text of a server-sent event. */
export function eventText({ id, event, data }: SseMessage): string {
  return (event === undefined ? "" : `event: ${event}\n`) + (id === undefined ? "" : `id: ${id}\n`) +
    `data: ${data}\n\n`;
}

/** Returns an event named by the `type` of its data. */
export function typedEvent(data: Readonly<Record<string, unknown>>): Uint8Array<ArrayBuffer> {
  return encoder.encode(eventText({ event: String(data.type), data: JSON.stringify(data) }));
}

const encoder = new TextEncoder();
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Splits a stream into events, in linear time for any chunking. */
export class SseSplitter {
  /** Incomplete event. */
  readonly #rest = new GrowingBytes();
  readonly #limits: { readonly maxEventBytes: number; readonly maxStreamBytes: number };
  #bytes = 0;
  #excess: string | undefined;

  /** Limits are in bytes. Default: those of a model's reply, 16 MiB and 128 MiB. */
  constructor(
    { maxEventBytes = MAX_EVENT_BYTES, maxStreamBytes = MAX_STREAM_BYTES }: {
      readonly maxEventBytes?: number;
      readonly maxStreamBytes?: number;
    } = {},
  ) {
    this.#limits = { maxEventBytes, maxStreamBytes };
  }

  /** Exceeded limit as a clause: `its stream has more than …`. */
  get excess(): string | undefined {
    return this.#excess;
  }

  /** Returns the bytes of completed events. */
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

  /** Returns completed events; none after a limit was exceeded. */
  events(bytes: Uint8Array<ArrayBuffer>): RawEvent[] {
    const whole = this.cut(bytes);
    return this.#excess === undefined ? splitEvents(whole) : [];
  }

  end(): RawEvent | undefined {
    return this.#rest.length === 0 ? undefined : readEvent(this.#rest.take());
  }

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

/** Returns the events; the last may be incomplete. */
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

/** A growable byte buffer. */
export class GrowingBytes {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Exceeded limit as a clause: `has more than …`. */
  get excess(): string | undefined {
    return this.#length > MAX_EVENT_BYTES ? `has more than ${inMebibytes(MAX_EVENT_BYTES)}` : undefined;
  }

  /** Negative places count from the end. */
  at(place: number): number | undefined {
    const at = place < 0 ? this.#length + place : place;
    return at < this.#length ? this.#bytes[at] : undefined;
  }

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

  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array();
    this.#length = 0;
    return bytes;
  }
}

const READ_BYTES = 16_384;

/**
 * Yields the bytes of a body, where possible in the same memory, so that a piece is valid until the next
 * request. Ends when `signal` is aborted; ending early cancels the body.
 * @throws errors of the body.
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

interface PieceReader {
  readonly read: () => Promise<Uint8Array<ArrayBuffer> | undefined>;
  readonly cancel: () => Promise<void>;
}

function readerOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): PieceReader {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    // A stream without BYOB support.
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

/** Longest server-sent event, and longest unstreamed reply, in bytes. */
export const MAX_EVENT_BYTES: number = 16 * 2 ** 20;

/** Longest stream in bytes; an event per token has a few hundred. */
const MAX_STREAM_BYTES: number = 128 * 2 ** 20;

function inMebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20 * 100) / 100} MiB`;
}

/** Bytes stored for counting; the rest is extrapolated. */
const COUNTED_BYTES = 2 ** 22;

const UNWRITTEN: readonly string[] = ["type", "role", "id", "signature"];

/** Text of a streamed reply, parsed only if usage is never reported. */
export class StreamedText {
  readonly #events = new GrowingBytes();
  #bytes = 0;

  add(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes += bytes.length;
    if (this.#events.length < COUNTED_BYTES) this.#events.add(bytes);
  }

  /** Estimates the tokens and clears the text. */
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
    // End marker, or truncated.
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

/** Most tool calls of a reply; models make tens. */
export const MAX_CALLS = 256;

/** A reply exceeds a limit. The message is a clause: `its stream has more than …`. */
export class ReplyTooLong extends Error {
  override readonly name = "ReplyTooLong";
}
