import type { Message, Model, ModelEvent, ModelRequest, ModelSettings } from "@tare/messages";
import { ModelError } from "../model_error.ts";
import { type FailedRequest, replyError, toModelError } from "./to_model_error.ts";

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
        for await (const piece of open(request, reply)) yield* reply.read(piece);
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
      }
      const isBroken = failure instanceof ModelError && failure.code === "bad_response";
      if (!isBroken || reply.begun || attempt >= maxRetries) throw failure;
    }
  };
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
 * What both name the provider by.
 *
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` can't stand in a header.
 */
export function checkAccess(
  { baseURL, apiKey, example }: {
    readonly baseURL: string;
    readonly apiKey: string | undefined;
    /** What a base URL looks like. */
    readonly example: string;
  },
): { readonly host: string } {
  const url = URL.parse(baseURL);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new TypeError(`Cannot use base URL "${baseURL}": it must be like ${example}.`);
  }
  if (apiKey && /[^\x21-\x7e]/.test(apiKey)) {
    throw new TypeError("Cannot use the API key: it holds spaces or other characters that no key has.");
  }
  return { host: url.host };
}

/**
 * A `fetch` for streamed replies: calls `progress` whenever bytes arrive, comments and pings of the event stream
 * included, with which providers keep a connection alive while the model is busy; and turns the JSON body of a server
 * that doesn't stream into a stream of one event.
 */
export function watchedFetch(
  fetch: typeof globalThis.fetch,
  progress: () => void,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    progress();
    if (!response.ok || !response.body) return response;
    const { status, headers } = response;
    if (/[/+]json\b/.test(headers.get("content-type") ?? "")) {
      // A line break in JSON stands between tokens, never inside one.
      const json = (await response.text()).replaceAll(/[\r\n]/g, " ");
      return new Response(`data: ${json}\n\n`, { status, headers });
    }
    const watched = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(bytes, controller) {
        progress();
        controller.enqueue(bytes);
      },
    });
    return new Response(response.body.pipeThrough(watched), { status, headers });
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
