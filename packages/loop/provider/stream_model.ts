import type { Message, Model, ModelEvent, ModelRequest, ModelSettings } from "@tare/messages";
import { GrowingBytes, inMebibytes, MAX_EVENT_BYTES, ReplyTooLong, SseSplitter } from "@tare/wire";
import { ModelError } from "../model_error.ts";
import { type FailedRequest, replyError, toModelError, waitOf } from "./to_model_error.ts";

/** Puts a streamed reply together. */
export interface ReplyReader {
  /** True once something of the reply was given to those who watch. */
  readonly begun: boolean;
  /** True once something was a reply in the provider's format. */
  readonly isReply: boolean;
  /** Takes a piece of the stream and gives what it tells those who watch. */
  read(piece: unknown): ModelEvent[];
  /** The whole reply, or nothing if the stream ended before it was whole. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined;
}

/** How a provider is reached, and how its replies are read. */
export interface StreamModelOptions<Reader extends ReplyReader> extends FailedRequest {
  /** How often a request is repeated whose stream broke off before anything of it was shown. */
  readonly maxRetries: number;
  /** Says what came, if it was no reply. */
  readonly noReply: string;
  /** Makes a reader for one reply. */
  readonly reader: () => Reader;
  /** Sends a request and gives the pieces of the reply. */
  readonly open: (request: ModelRequest, reader: Reader) => AsyncIterable<unknown>;
}

/** Longest reply in characters, reasoning and arguments of calls included: models write 1.5 million at most. */
const MAX_CHARS = 2_000_000;

/** Longest body of an error that is read, in bytes. */
const MAX_ERROR_BYTES = 65_536;

/** Longest time to wait that a provider may ask for, in milliseconds; with more the turn ends. */
const MAX_WAIT_MS = 60_000;

const CUT_OFF = "its stream ended before the reply was whole";

/** A model whose replies are streamed by a provider's SDK. What fails is a `ModelError` that doesn't hold the API key. */
export function streamModel<Reader extends ReplyReader>(options: StreamModelOptions<Reader>): Model {
  const { host, maxRetries, noReply, reader, open } = options;
  return async function* (request) {
    const takenIds = callIds(request.messages);
    for (let attempt = 0;; attempt++) {
      const reply = reader();
      let failure: unknown;
      try {
        let chars = 0;
        for await (const piece of open(request, reply)) {
          for (const event of reply.read(piece)) {
            chars += charsOf(event);
            if (chars > MAX_CHARS) throw new ReplyTooLong(`it says more than ${MAX_CHARS} characters`);
            yield event;
          }
        }
        // The SDKs end an aborted stream as if it were whole.
        request.signal.throwIfAborted();
        const completed = reply.finish(takenIds);
        if (completed) {
          yield completed;
          return;
        }
        failure = replyError("bad_response", host, reply.isReply ? CUT_OFF : noReply);
      } catch (error) {
        request.signal.throwIfAborted();
        failure = blame(toModelError(error, options), request.settings);
        // It would be as long again.
        if (error instanceof ReplyTooLong) throw failure;
      }
      const isBroken = failure instanceof ModelError && failure.code === "bad_response";
      if (!isBroken || reply.begun || attempt >= maxRetries) throw failure;
    }
  };
}

function charsOf(event: ModelEvent): number {
  if (event.type === "tool_call_delta") return (event.name ?? "").length + (event.arguments ?? "").length;
  return event.type === "completed" ? 0 : event.text.length;
}

/** A provider that refuses a request over one of its settings names it: then whoever chose it is at fault. */
function blame(failure: unknown, settings: ModelSettings = {}): unknown {
  if (!(failure instanceof ModelError) || failure.code !== "bad_request" || failure.param) return failure;
  const param = Object.keys(settings).find((name) => new RegExp(`\\b${name}\\b`).test(failure.message));
  return param === undefined
    ? failure
    : new ModelError(failure.code, failure.message, { param, cause: failure });
}

/**
 * A `fetch` for streamed replies: calls `progress` whenever bytes arrive, comments and pings of the event stream
 * included, with which providers keep a connection alive while the model is busy; turns the JSON body of a server that
 * doesn't stream into a stream of one event; and gives whole events, so that nobody looks twice at a long one. A body
 * that is too long fails with {@linkcode ReplyTooLong}. Redirects aren't followed, and who is told to wait for long isn't
 * told to ask again.
 */
export function watchedFetch(
  fetch: typeof globalThis.fetch,
  progress: () => void,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    progress();
    const { ok, status, body } = response;
    const headers = new Headers(response.headers);
    if (!ok && (waitOf(headers).retryAfterMs ?? 0) > MAX_WAIT_MS) headers.set("x-should-retry", "false");
    const isJson = /[/+]json\b/.test(headers.get("content-type") ?? "");
    const frame = !ok ? firstBytes() : isJson ? oneEvent() : wholeEvents();
    const watched = new TransformStream<Bytes, Bytes>({
      transform(bytes, controller) {
        progress();
        const seen = frame.add(bytes);
        if (seen === undefined) controller.terminate();
        else if (seen.length > 0) controller.enqueue(seen);
      },
      flush(controller) {
        const rest = frame.end();
        if (rest.length > 0) controller.enqueue(rest);
      },
    });
    return new Response(body && body.pipeThrough(watched), { status, headers });
  };
}

type Bytes = Uint8Array<ArrayBuffer>;

/** What becomes of a body. */
interface Frame {
  /** What can be seen with these bytes; nothing where it ends. @throws {ReplyTooLong} */
  readonly add: (bytes: Bytes) => Bytes | undefined;
  /** The rest. */
  readonly end: () => Bytes;
}

const NOTHING: Bytes = new Uint8Array();

function wholeEvents(): Frame {
  const splitter = new SseSplitter();
  return {
    add: (bytes) => {
      const whole = splitter.cut(bytes);
      if (splitter.excess !== undefined) throw new ReplyTooLong(splitter.excess);
      return whole;
    },
    end: () => splitter.end()?.bytes ?? NOTHING,
  };
}

function oneEvent(): Frame {
  const whole = new GrowingBytes();
  return {
    add: (bytes) => {
      whole.add(bytes);
      if (whole.length > MAX_EVENT_BYTES) {
        throw new ReplyTooLong(`it has more than ${inMebibytes(MAX_EVENT_BYTES)}`);
      }
      return NOTHING;
    },
    end: () => {
      // A line break in JSON stands between tokens, never inside one.
      const json = new TextDecoder().decode(whole.take()).replaceAll(/[\r\n]/g, " ");
      return new TextEncoder().encode(`data: ${json}\n\n`);
    },
  };
}

function firstBytes(): Frame {
  let left = MAX_ERROR_BYTES;
  return {
    add: (bytes) => {
      const seen = bytes.subarray(0, left);
      left -= seen.length;
      return seen.length > 0 ? seen : undefined;
    },
    end: () => NOTHING,
  };
}

function callIds(messages: readonly Message[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
}
