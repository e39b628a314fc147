import type { Message, Model, ModelEvent, ModelRequest, ModelSettings } from "@tare/messages";
import { ReplyTooLong } from "@tare/wire";
import { ModelError } from "../model_error.ts";
import { type FailedRequest, replyError, toModelError, waitOf } from "./to_model_error.ts";

/** Puts a streamed reply together. */
interface ReplyReader {
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
interface StreamModelOptions<Reader extends ReplyReader> extends FailedRequest {
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
        // A stream that was aborted ends as if it were whole.
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
 * A `fetch` for an SDK: redirects aren't followed, who is told to wait for long isn't told to ask again, and of the body
 * of an error only the beginning is read. Calls `progress` when an answer begins.
 */
export function watchedFetch(
  fetch: typeof globalThis.fetch,
  { progress = () => {}, confirm }: Pick<ModelRequest, "progress" | "confirm">,
): typeof globalThis.fetch {
  return async (input, init) => {
    // Here, because the SDK repeats requests by itself.
    confirm?.();
    const response = await fetch(input, { ...init, redirect: "manual" });
    progress();
    const { ok, status, body } = response;
    if (ok) return response;
    const headers = new Headers(response.headers);
    if ((waitOf(headers).retryAfterMs ?? 0) > MAX_WAIT_MS) headers.set("x-should-retry", "false");
    return new Response(body && body.pipeThrough(firstBytes(progress)), { status, headers });
  };
}

type Bytes = Uint8Array<ArrayBuffer>;

function firstBytes(progress: () => void): TransformStream<Bytes, Bytes> {
  let left = MAX_ERROR_BYTES;
  return new TransformStream({
    transform(bytes, controller) {
      progress();
      const seen = bytes.subarray(0, left);
      left -= seen.length;
      if (seen.length > 0) controller.enqueue(seen);
      else controller.terminate();
    },
  });
}

function callIds(messages: readonly Message[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
}
