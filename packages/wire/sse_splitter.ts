import { GrowingBytes } from "./growing_bytes.ts";
import { inMebibytes, MAX_EVENT_BYTES, MAX_STREAM_BYTES } from "./reply_limits.ts";

/** A server-sent event as it was sent. */
export interface RawEvent {
  /** Its bytes, the blank line at its end included. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its name; nothing where it has none. */
  readonly name?: string;
  /** Its data; nothing for comments. */
  readonly data?: string;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** How long a stream may be. */
export interface StreamLimits {
  /** Longest event in bytes. Default: {@linkcode MAX_EVENT_BYTES}. */
  readonly maxEventBytes?: number;
  /** Longest stream in bytes. Default: {@linkcode MAX_STREAM_BYTES}. */
  readonly maxBytes?: number;
}

/** Cuts a stream where its events end. Takes time in proportion to its length, however its pieces come. */
export class SseSplitter {
  readonly #maxEventBytes: number;
  readonly #maxBytes: number;
  /** What has come of an event that isn't whole. */
  readonly #rest = new GrowingBytes();
  #bytes = 0;
  #excess: string | undefined;

  /** A splitter for one stream. */
  constructor({ maxEventBytes = MAX_EVENT_BYTES, maxBytes = MAX_STREAM_BYTES }: StreamLimits = {}) {
    this.#maxEventBytes = maxEventBytes;
    this.#maxBytes = maxBytes;
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
    this.#bytes += more;
    const isLong = (bytes: number) => bytes > this.#maxEventBytes;
    if (
      isLong(this.#rest.length) ||
      (isLong(whole.length) && splitEvents(whole).some(({ bytes }) => isLong(bytes.length)))
    ) {
      this.#excess ??= `one of its events has more than ${inMebibytes(this.#maxEventBytes)}`;
    } else if (this.#bytes > this.#maxBytes) {
      this.#excess ??= `its stream has more than ${inMebibytes(this.#maxBytes)}`;
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
  return { bytes, ...(name && { name }), ...(data.length > 0 && { data: data.join("\n") }) };
}

function valuesOf(lines: readonly string[], field: string): string[] {
  const { length } = field;
  return lines.filter((line) => line.startsWith(field))
    .map((line) => line.slice(line[length] === " " ? length + 1 : length));
}
