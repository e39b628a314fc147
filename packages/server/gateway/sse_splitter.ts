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

/** Splits a stream into its events and keeps their bytes. */
export class SseSplitter {
  #rest: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** The events that are whole with these bytes. */
  push(bytes: Uint8Array<ArrayBuffer>): RawEvent[] {
    const all = this.#rest.length === 0 ? bytes : joinBytes([this.#rest, bytes]);
    const events: RawEvent[] = [];
    let from = 0;
    for (let at = all.indexOf(LINE_FEED); at >= 0; at = all.indexOf(LINE_FEED, at + 1)) {
      const next = all[at + 1] === CARRIAGE_RETURN ? at + 2 : at + 1;
      if (all[next] !== LINE_FEED) continue;
      events.push(readEvent(all.subarray(from, next + 1)));
      from = next + 1;
      at = next;
    }
    this.#rest = all.subarray(from);
    return events;
  }

  /** What is left when the stream ends, which isn't a whole event. */
  end(): RawEvent | undefined {
    const rest = this.#rest;
    this.#rest = new Uint8Array();
    return rest.length === 0 ? undefined : readEvent(rest);
  }
}

const decoder = new TextDecoder();

function readEvent(bytes: Uint8Array<ArrayBuffer>): RawEvent {
  const data = decoder.decode(bytes).split(/\r?\n/).filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(line[5] === " " ? 6 : 5));
  return data.length === 0 ? { bytes } : { bytes, data: data.join("\n") };
}
