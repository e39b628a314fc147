import type {
  AssistantMessage,
  KeepablePrompt,
  Message,
  Model,
  ModelEvent,
  ModelRequest,
  ModelSettings,
  ToolCall,
} from "@tare/messages";
import { callIds, type NeededOptions } from "@tare/messages/internal";
import {
  asRecord,
  type LegalForms,
  originalCalls,
  ReplyTooLong,
  statusOf,
  UnknownShape,
} from "@tare/wire/internal";
import { bodyPieces, GrowingBytes, type RawEvent, SseSplitter } from "@tare/wire/internal/sse";
import { setTimeout as pause } from "node:timers/promises";
import { ModelError } from "./event.ts";

/** Options of all models. */
export interface ProviderOptions {
  /** The provider's name of the model. */
  readonly model: string;
  /** Bearer token. Default: none, as for local servers. */
  readonly apiKey?: string;
  /** Variable of the key, for error messages. Default: unknown. */
  readonly apiKeyName?: string | undefined;
  /** Base URL of the API. */
  readonly baseURL?: string;
  /** Headers of each request, such as `anthropic-beta` or OpenRouter's `HTTP-Referer`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Extends or replaces fields of each request's body. Default: none. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Longest time until a response begins, in milliseconds. Default: 600,000. */
  readonly timeoutMs?: number;
  /** Retries of a failed request. Default: 2. */
  readonly maxRetries?: number;
  /**
   * Waits in milliseconds before further retries of an overloaded provider (429, 5xx) that requests none. Default:
   * none.
   */
  readonly busyWaitsMs?: readonly number[];
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

interface ProviderAccess extends
  Pick<ProviderOptions, "apiKeyName">,
  Required<
    Pick<ProviderOptions, "model" | "baseURL" | "extraBody" | "timeoutMs" | "maxRetries" | "busyWaitsMs">
  > {
  /** Redacted in every message. */
  readonly apiKey: string | undefined;
  readonly host: string;
  readonly clientOptions: (request: Pick<ModelRequest, "progress" | "refused" | "confirm">) => {
    readonly apiKey: string;
    readonly logLevel: "off";
    readonly defaultHeaders: Record<string, string | null>;
    readonly timeout: number;
    readonly maxRetries: number;
    readonly fetch: typeof globalThis.fetch;
  };
}

/** Shared options, for `checkGiven`. */
export const PROVIDER_OPTIONS: NeededOptions<ProviderOptions> = {
  model: "string",
  "apiKey?": "string",
  "apiKeyName?": "string",
  "baseURL?": "string",
  "headers?": "object",
  "extraBody?": "object",
  "timeoutMs?": "number",
  "maxRetries?": "number",
  "busyWaitsMs?": "array",
  "fetch?": "function",
};

/**
 * Returns the access to a provider.
 *
 * @param usualURL The default of `baseURL`.
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` is no header value.
 */
export function accessTo(options: ProviderOptions, usualURL: string): ProviderAccess {
  const { model, apiKey, apiKeyName, baseURL = usualURL, headers = {}, fetch = globalThis.fetch } = options;
  const { extraBody = {}, timeoutMs = 600_000, maxRetries = 2, busyWaitsMs = [] } = options;
  const url = URL.parse(baseURL);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new TypeError(
      `Cannot use base URL "${baseURL}": it is not an HTTP address. Use one like ${usualURL}.`,
    );
  }
  if (apiKey && /[^\x21-\x7e]/.test(apiKey)) {
    throw new TypeError("Cannot use the API key: it contains spaces or other invalid characters.");
  }
  return {
    ...{ model, apiKey, apiKeyName, baseURL, host: url.host, extraBody, timeoutMs, maxRetries, busyWaitsMs },
    clientOptions: (request) => ({
      // The SDKs require a key.
      apiKey: apiKey || "none",
      logLevel: "off",
      defaultHeaders: { ...headers, ...(!apiKey && { Authorization: null }) },
      timeout: timeoutMs,
      maxRetries,
      fetch: watchedFetch({ fetch, host: url.host }, request),
    }),
  };
}

/** Returns a reply's author, to which its sealed, signed and provider-specific parts are limited. */
export function authorOf(
  protocol: string,
  { baseURL, model }: Pick<ProviderAccess, "baseURL" | "model">,
): string {
  // Without the port: ports of local servers change.
  return `${protocol} ${new URL(baseURL).hostname} ${model}`;
}

/** Removes the specific parts of other authors' replies. */
function readableBy(author: string, messages: readonly Message[]): readonly Message[] {
  return messages.map((message) => {
    if (message.role !== "assistant" || !message.carried) return message;
    return message.carried.by === author ? message : withoutCarried(message);
  });
}

const plainReplies = new WeakMap<AssistantMessage, AssistantMessage>();

/** Returns the same object each time. */
function withoutCarried(message: AssistantMessage): AssistantMessage {
  const known = plainReplies.get(message);
  if (known) return known;
  const { role, content = null, refusal, name, tool_calls: calls } = message;
  const plain: AssistantMessage = {
    role,
    content,
    ...(refusal && { refusal }),
    ...(name !== undefined && { name }),
    ...(calls && { tool_calls: calls.map(plainCall) }),
  };
  plainReplies.set(message, plain);
  return plain;
}

function plainCall(call: ToolCall): ToolCall {
  if (call.type === "custom") {
    const { id, type, custom: { name, input } } = call;
    return { id, type, custom: { name, input } };
  }
  const { id, type, function: { name, arguments: text } } = call;
  return { id, type, function: { name, arguments: text } };
}

function signed(message: AssistantMessage, author: string): AssistantMessage {
  const isPlain = !message.carried && JSON.stringify(withoutCarried(message)) === JSON.stringify(message);
  return isPlain ? message : { ...message, carried: { ...message.carried, by: author } };
}

interface ReplyReader {
  /** True after a piece in the provider's format. */
  readonly isReply: boolean;
  read(piece: unknown): ModelEvent[];
  /** Returns `undefined` if the stream ended early. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined;
}

interface StreamModelOptions<Reader extends ReplyReader>
  extends FailedRequest, Pick<ProviderAccess, "maxRetries" | "busyWaitsMs"> {
  readonly author: string;
  readonly noReply: string;
  /** Replacements in requests, reverted in replies. */
  readonly forms: LegalForms;
  readonly reader: () => Reader;
  /** Returns the keep-alive of a reply's prompt. Default: none. */
  readonly keepable?: (
    reader: Reader,
    completed: Extract<ModelEvent, { type: "completed" }>,
  ) => KeepablePrompt | undefined;
  readonly open: (request: ModelRequest, reader: Reader) => AsyncIterable<unknown>;
}

/** Longest reply in characters; models write at most 1.5 million. */
const MAX_CHARS = 2_000_000;

const MAX_ERROR_BYTES = 65_536;

/** A provider that requests a longer wait ends the turn. */
const MAX_WAIT_MS = 60_000;

const CUT_OFF = "the stream ended before the reply was complete";

/** Returns a model over a provider's SDK. Failures are a `ModelError` without the API key. */
export function streamModel<Reader extends ReplyReader>(options: StreamModelOptions<Reader>): Model {
  const { host, author, maxRetries, busyWaitsMs, noReply, forms, reader, keepable, open } = options;
  return async function* (incoming) {
    const request = { ...incoming, messages: readableBy(author, incoming.messages) };
    const takenIds = callIds(request.messages);
    const waits = busyWaitsMs.values();
    for (let attempt = 0;;) {
      const reply = reader();
      let failure: unknown;
      /** Whether deltas were emitted. Calls run only after the whole reply. */
      let hasStreamed = false;
      try {
        let chars = 0;
        for await (const piece of open(request, reply)) {
          for (const event of reply.read(piece)) {
            chars += charsOf(event);
            if (chars > MAX_CHARS) throw new ReplyTooLong(`the reply has more than ${MAX_CHARS} characters`);
            hasStreamed ||= event.type !== "tool_call_delta";
            yield event;
          }
        }
        // The stream of an aborted request ends like a complete one.
        request.signal.throwIfAborted();
        const completed = reply.finish(takenIds);
        if (completed) {
          const prompt = request.keepable && keepable?.(reply, completed);
          if (prompt) request.keepable?.(prompt);
          yield { ...completed, message: signed(originalCalls(completed.message, request, forms), author) };
          return;
        }
        failure = replyError("bad_response", host, reply.isReply ? CUT_OFF : noReply);
      } catch (error) {
        request.signal.throwIfAborted();
        failure = blame(toModelError(error, options), request.settings);
        // A retry would be as long.
        if (error instanceof ReplyTooLong) throw failure;
      }
      if (!(failure instanceof ModelError) || hasStreamed && !request.restarted) throw failure;
      const { value: wait } = failure instanceof BusyError ? waits.next() : {};
      if (wait !== undefined) {
        const { signal } = request;
        await pause(failure.retryAfterMs ?? wait, undefined, { signal }).catch(() => {});
        signal.throwIfAborted();
      } else if (failure.code !== "bad_response" || attempt++ >= maxRetries) throw failure;
      if (hasStreamed) request.restarted?.(failure.message);
    }
  };
}

function charsOf(event: ModelEvent): number {
  if (event.type === "tool_call_delta") return (event.name ?? "").length + (event.arguments ?? "").length;
  return event.type === "completed" ? 0 : event.text.length;
}

const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  reasoning_effort: ["reasoning\\.effort", "output_config\\.effort", "thinking\\.budget_tokens"],
};

/** Adds the setting that a refusal names. */
function blame(failure: unknown, settings: ModelSettings = {}): unknown {
  if (!(failure instanceof ModelError) || failure.code !== "bad_request" || failure.param) return failure;
  const param = Object.keys(settings).find((name) =>
    new RegExp(`\\b(${[name, ...OTHER_NAMES[name] ?? []].join("|")})\\b`).test(failure.message)
  );
  return param === undefined
    ? failure
    : new ModelError(failure.code, failure.message, { param, cause: failure });
}

/** Returns a `fetch` without redirects, retries after long waits, and long error bodies. */
function watchedFetch(
  { fetch, host }: { readonly fetch: typeof globalThis.fetch; readonly host: string },
  { progress = () => {}, refused, confirm }: Pick<ModelRequest, "progress" | "refused" | "confirm">,
): typeof globalThis.fetch {
  return async (input, init) => {
    // Here, because the SDK retries itself.
    confirm?.();
    const response = await fetch(input, { ...init, redirect: "manual" });
    progress();
    const { ok, status, body } = response;
    if (ok) {
      refused?.(undefined);
      return response;
    }
    const headers = new Headers(response.headers);
    const why = status === 429 ? rateLimit(headers) : "failed";
    refused?.(`${host} ${why} (${status})`);
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

interface ReplyEvent {
  readonly name?: string | undefined;
  readonly json: unknown;
}

const DONE = "[DONE]";

const END_MS = 1000;

/**
 * Yields the events of a streamed reply; a JSON body is one event. All bytes are progress, including comments and
 * pings. Incomplete events, and bytes after the end mark, are ignored.
 *
 * @throws {SyntaxError} if an event is not JSON.
 * @throws {ReplyTooLong} if the body or an event is too long.
 * @throws {TypeError} if the connection fails.
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

/** A cancelled connection can't be reused, so the body is drained. */
async function readToEnd(pieces: AsyncIterable<unknown>, late: AbortController): Promise<void> {
  const timer = setTimeout(() => late.abort(), END_MS);
  try {
    for await (const _ of pieces);
  } catch {
    // The reply is complete.
  } finally {
    clearTimeout(timer);
  }
}

function jsonOf({ name, data }: RawEvent): readonly ReplyEvent[] {
  return data === undefined ? [] : [{ name, json: JSON.parse(data) }];
}

interface Frame {
  readonly add: (bytes: Uint8Array<ArrayBuffer>) => RawEvent[];
  readonly end: () => RawEvent[];
}

function wholeEvents(): Frame {
  const splitter = new SseSplitter();
  return {
    add(bytes) {
      const events = splitter.events(bytes);
      if (splitter.excess !== undefined) throw new ReplyTooLong(splitter.excess);
      return events;
    },
    end: () => [],
  };
}

function oneEvent(): Frame {
  const whole = new GrowingBytes();
  return {
    add(bytes) {
      whole.add(bytes);
      if (whole.excess !== undefined) throw new ReplyTooLong(`it ${whole.excess}`);
      return [];
    },
    end() {
      const bytes = whole.take();
      return [{ bytes, data: new TextDecoder().decode(bytes) }];
    },
  };
}

interface ApiError extends Error {
  readonly status?: number | undefined;
  readonly headers?: Headers | undefined;
  readonly error?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
}

interface SdkErrors {
  readonly APIError: abstract new (...args: never[]) => ApiError;
  readonly APIConnectionError: abstract new (...args: never[]) => Error;
  readonly APIConnectionTimeoutError: abstract new (...args: never[]) => Error;
}

interface FailedRequest
  extends Pick<ProviderAccess, "host" | "model" | "apiKey" | "apiKeyName" | "timeoutMs"> {
  readonly errors: SdkErrors;
}

const MAX_QUOTE = 500;

/** From OpenAI, Anthropic, Gemini, xAI, DeepSeek, vLLM, llama.cpp and others. */
const TOO_LONG =
  /context[ _-]?(length|size|window)|maximum (context|prompt) length|prompt[^.]{0,40} too (long|large)|too many (input )?tokens|input token count|token (limit|count)[^.]{0,60}exceed|exceed[^.]{0,60}(token limit|context|number of tokens)|max_prompt_tokens/i;

/** From OpenAI, Anthropic, DeepSeek and OpenRouter. Gemini's rate limits mention billing too, with a wait. */
const NO_QUOTA =
  /insufficient[ _](quota|balance|credits?|funds)|exceeded your current quota|credit balance is too low|billing_hard_limit/i;

const NO_SUCH_MODEL =
  /model_not_found|model.{0,100}(not found|not exist)|not a valid model|(no such|unknown|invalid) model/i;

/** Returns the error of a failed request; other errors unchanged. */
export function toModelError(error: unknown, request: FailedRequest): unknown {
  const { host, timeoutMs, errors: { APIConnectionError, APIConnectionTimeoutError, APIError } } = request;
  if (error instanceof APIConnectionTimeoutError) {
    return replyError("unreachable", host, `no response began within ${timeoutMs / 1000} s`);
  }
  if (error instanceof APIConnectionError) {
    return replyError("unreachable", host, connectionFault(error), { cause: error.cause });
  }
  if (error instanceof APIError) {
    const { code, state, isBusy = false } = classifyError(error, request);
    // No `cause`: it may contain the key.
    const wait = isBusy || code === "rate_limited" ? waitOf(error.headers) : {};
    const isSoon = (wait.retryAfterMs ?? 0) <= MAX_WAIT_MS;
    return replyError(code, host, state, { ...wait, isBusy: isBusy && isSoon });
  }
  if (error instanceof ReplyTooLong) return replyError("bad_response", host, error.message);
  if (error instanceof UnknownShape) {
    const { message, param } = error;
    return new ModelError("bad_request", `Cannot call ${request.model}: ${message}.`, {
      cause: error,
      ...(param !== undefined && { param }),
    });
  }
  if (error instanceof SyntaxError) {
    return replyError("bad_response", host, "the stream contains an event that is not JSON", {
      cause: error,
    });
  }
  // A failed connection throws a TypeError.
  if (error instanceof TypeError) {
    return replyError("bad_response", host, "the connection failed before the reply was complete", {
      cause: error,
    });
  }
  return error;
}

function replyError(
  code: ModelError["code"],
  host: string,
  state: string,
  { isBusy = false, ...options }: {
    readonly retryAfterMs?: number;
    readonly cause?: unknown;
    readonly isBusy?: boolean;
  } = {},
): ModelError {
  return new (isBusy ? BusyError : ModelError)(code, `Cannot get a reply from ${host}: ${state}.`, options);
}

class BusyError extends ModelError {}

function classifyError(
  error: ApiError,
  { model, apiKey, apiKeyName }: FailedRequest,
): { readonly code: ModelError["code"]; readonly state: string; readonly isBusy?: boolean } {
  // Stream errors have no status, but sometimes a numeric `code` or a corresponding `type`.
  const status = error.status ?? (typeof error.code === "number" ? error.code : statusOf(error.type));
  const details = JSON.stringify(error.error ?? error.message);
  const quote = [status, quoteOf(error, apiKey)].filter(Boolean).join(": ");
  const quoted = quote ? ` (${quote})` : "";
  if (status === 401) {
    // Providers quote parts of the key here.
    return {
      code: "bad_key",
      state: apiKey
        ? `the API key ${apiKeyName ? `in ${apiKeyName} ` : ""}was refused (401)`
        : `it requires an API key (401)${apiKeyName ? `. Set ${apiKeyName}` : ""}`,
    };
  }
  if (status === 403) return { code: "bad_key", state: `the API key doesn't permit this${quoted}` };
  const isPaced = /retry in|per[ _]?(minute|day)/i.test(details) ||
    waitOf(error.headers).retryAfterMs !== undefined;
  if (status === 402 || error.code === "insufficient_quota" || NO_QUOTA.test(details) && !isPaced) {
    return {
      code: "insufficient_quota",
      state: `the account's quota or credit is exhausted${quoted}. Check its plan and billing`,
    };
  }
  if (status === 429) {
    return { code: "rate_limited", state: `it ${rateLimit(error.headers)}${quoted}`, isBusy: true };
  }
  if (status !== undefined && status >= 300 && status < 400) {
    const location = error.headers?.get("location");
    const where = location ? ` to ${JSON.stringify(location.slice(0, MAX_QUOTE))}` : "";
    return {
      code: "unreachable",
      state: `it redirects${where} (${status}). Set the base URL to the final address`,
    };
  }
  if (status === 413 || TOO_LONG.test(details)) {
    return { code: "prompt_too_long", state: `the prompt is too long for ${model}${quoted}` };
  }
  if (status === 404 || NO_SUCH_MODEL.test(details)) {
    return {
      code: "no_such_model",
      state: `there is no model "${model}", or the base URL is wrong${quoted}`,
    };
  }
  return status !== undefined && status >= 400 && status < 500 && status !== 408
    ? { code: "bad_request", state: `it refused the request${quoted}` }
    : { code: "provider_error", state: `it failed${quoted}`, isBusy: (status ?? 0) >= 500 };
}

/** Returns the provider's message on one line, redacted. */
function quoteOf({ error, message, status }: ApiError, apiKey: string | undefined): string {
  const whole = asRecord(error);
  const body = asRecord(whole?.error) ?? whole;
  // OpenRouter forwards the upstream's message.
  const inner = asRecord(body?.metadata)?.raw;
  const entry = typeof error === "string"
    ? error
    : body
    ? [body.message ?? body.detail ?? JSON.stringify(body), inner].filter((part) => typeof part === "string")
      .join(" ")
    : message.replace(`${status} `, "");
  // Redacted before truncation.
  const line = (apiKey ? entry.replaceAll(apiKey, "***") : entry).replaceAll(/\s+/g, " ").trim();
  if (line.startsWith("<") || line === "status code (no body)") return "";
  return line.length > MAX_QUOTE ? `${line.slice(0, MAX_QUOTE)}…` : line.replace(/\.$/, "");
}

function rateLimit(headers: Headers | undefined): string {
  const { retryAfterMs } = waitOf(headers);
  const wait = retryAfterMs === undefined ? "" : ` and requests a wait of ${retryAfterMs / 1000} s`;
  return `reports an exceeded rate limit${wait}`;
}

function waitOf(headers: Headers | undefined): { readonly retryAfterMs?: number } {
  const ms = headers?.get("retry-after-ms");
  if (ms && Number(ms) >= 0) return { retryAfterMs: Number(ms) };
  const after = headers?.get("retry-after");
  if (!after) return {};
  const wait = Number.isNaN(Number(after)) ? Date.parse(after) - Date.now() : Number(after) * 1000;
  return Number.isNaN(wait) ? {} : { retryAfterMs: Math.max(0, wait) };
}

function connectionFault(error: Error): string {
  const cause = error.cause instanceof Error
    ? `${error.cause.message} ${error.cause.cause ?? ""}`
    : error.message;
  if (/refused/i.test(cause)) return "the connection was refused (is the server running?)";
  if (/dns|lookup|ENOTFOUND|EAI_AGAIN/i.test(cause)) return "its name can't be resolved";
  return `the connection failed (${cause.replace(/^error sending request[^:]*: /, "").trim()})`;
}
