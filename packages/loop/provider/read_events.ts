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
export interface ReplyEvent {
  /** Name of the event; nothing where it has none. */
  readonly name?: string | undefined;
  /** Its data, as JSON. */
  readonly json: unknown;
}

/** What ends a stream of OpenAI's kind, behind which nothing counts. */
const DONE = "[DONE]";

/**
 * The events of a streamed reply as they come; the JSON body of a server that doesn't stream is one. Calls `progress`
 * whenever bytes arrive, comments and pings included, with which providers keep a connection alive while the model is
 * busy. An event without its end is none. Once `signal` is aborted nothing more comes.
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
  for await (const piece of bodyPieces(body, signal)) {
    progress?.();
    for (const event of frame.add(piece)) {
      if (event.data === DONE) return;
      yield* jsonOf(event);
    }
  }
  if (!signal.aborted) yield* frame.end().flatMap(jsonOf);
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
