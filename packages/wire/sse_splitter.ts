import { joinBytes } from "./json_spans.ts";

/** A server-sent event as it was sent. */
export interface RawEvent {
  /** Its bytes, the blank line at its end included. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its data; nothing for comments. */
  readonly data?: string;
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Cuts a stream where its events end. */
export class SseSplitter {
  #rest: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** The bytes of the events that are whole with these bytes. */
  cut(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const all = this.#rest.length === 0 ? bytes : joinBytes([this.#rest, bytes]);
    let end = all.length;
    while (end > 0 && !endsEvent(all, end)) end = all.lastIndexOf(LINE_FEED, end - 2) + 1;
    this.#rest = all.subarray(end);
    return all.subarray(0, end);
  }

  /** What is left when the stream ends, which isn't a whole event. */
  end(): RawEvent | undefined {
    const rest = this.#rest;
    this.#rest = new Uint8Array();
    return rest.length === 0 ? undefined : readEvent(rest);
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

/** Whether a blank line stands before this place. */
function endsEvent(bytes: Uint8Array<ArrayBuffer>, end: number): boolean {
  if (bytes[end - 1] !== LINE_FEED) return false;
  return bytes[end - 2] === LINE_FEED || (bytes[end - 2] === CARRIAGE_RETURN && bytes[end - 3] === LINE_FEED);
}

const decoder = new TextDecoder();

function readEvent(bytes: Uint8Array<ArrayBuffer>): RawEvent {
  const data = decoder.decode(bytes).split(/\r?\n/).filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(line[5] === " " ? 6 : 5));
  return data.length === 0 ? { bytes } : { bytes, data: data.join("\n") };
}
