import type { ModelRequest } from "@tare/messages";
import {
  bodyPieces,
  GrowingBytes,
  inMebibytes,
  MAX_EVENT_BYTES,
  type RawEvent,
  ReplyTooLong,
  splitEvents,
  SseSplitter,
} from "@tare/wire";

/** What a reply consists of. */
interface ReplyEvent {
  /** Name of the event; nothing where it has none. */
  readonly name?: string | undefined;
  /** Its data, as JSON. */
  readonly json: unknown;
}

/** What ends a stream of OpenAI's kind, behind which nothing counts. */
const DONE = "[DONE]";

/** How long a body may take to end behind its reply, in milliseconds. */
const END_MS = 1000;

/**
 * The events of a streamed reply as they come; the JSON body of a server that doesn't stream is one. Calls `progress`
 * whenever bytes arrive, comments and pings included, with which providers keep a connection alive while the model is
 * busy. An event without its end is none. Once `signal` is aborted nothing more comes. Behind the end mark the body is
 * read on for a second at most, and what comes there is nobody's.
 *
 * @throws {SyntaxError} if an event is no JSON.
 * @throws {ReplyTooLong} if the body, or an event of it, is too long.
 * @throws {TypeError} if the connection breaks.
 */
export async function* readEvents(
  { headers, body }: Response,
  { signal, progress }: Pick<ModelRequest, "signal" | "progress">,
): AsyncGenerator<ReplyEvent, void> {
  const isJson = /[/+]json\b/.test(headers.get("content-type") ?? "");
  const frame = isJson ? oneEvent() : wholeEvents();
  const late = new AbortController();
  const pieces = bodyPieces(body, AbortSignal.any([signal, late.signal]));
  let isDone = false;
  try {
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) {
      progress?.();
      for (const event of frame.add(next.value)) {
        isDone = event.data === DONE;
        if (isDone) return;
        yield* jsonOf(event);
      }
    }
  } finally {
    if (isDone) void readToEnd(pieces, late);
    else await pieces.return();
  }
  if (!signal.aborted) yield* frame.end().flatMap(jsonOf);
}

/** Lets a body end behind its reply: the connection of one that is cancelled can't serve the next request. */
async function readToEnd(pieces: AsyncIterable<unknown>, late: AbortController): Promise<void> {
  const timer = setTimeout(() => late.abort(), END_MS);
  try {
    for await (const _ of pieces);
  } catch {
    // The reply is whole, whatever becomes of the connection.
  } finally {
    clearTimeout(timer);
  }
}

function jsonOf({ name, data }: RawEvent): readonly ReplyEvent[] {
  return data === undefined ? [] : [{ name, json: JSON.parse(data) }];
}

/** How events are found in the bytes of a body. */
interface Frame {
  /** Those that are whole with these bytes. @throws {ReplyTooLong} */
  readonly add: (bytes: Uint8Array<ArrayBuffer>) => readonly RawEvent[];
  /** Those that are whole with the body's end. */
  readonly end: () => readonly RawEvent[];
}

function wholeEvents(): Frame {
  const splitter = new SseSplitter();
  return {
    add(bytes) {
      const whole = splitter.cut(bytes);
      if (splitter.excess !== undefined) throw new ReplyTooLong(splitter.excess);
      return splitEvents(whole);
    },
    end: () => [],
  };
}

function oneEvent(): Frame {
  const whole = new GrowingBytes();
  return {
    add(bytes) {
      whole.add(bytes);
      if (whole.length > MAX_EVENT_BYTES) {
        throw new ReplyTooLong(`it has more than ${inMebibytes(MAX_EVENT_BYTES)}`);
      }
      return [];
    },
    end() {
      const bytes = whole.take();
      return [{ bytes, data: new TextDecoder().decode(bytes) }];
    },
  };
}
