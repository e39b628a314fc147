import { Keys, type Store, StoreError } from "@tare/session";
import { Telemetry } from "@tare/session/telemetry";
import type { HttpGateway } from "@tare/gateway";
import { readBody, readPath, withClientSignal } from "@tare/gateway/internal";
import { ApiError, jsonExcess, PROTOCOLS } from "@tare/wire/internal";
import { type Static, type TProperties, Type } from "typebox";
import { type ErrorCode, errorResponse, HttpError, invalidRequest, notFound } from "./http_error.ts";
import type {
  Answered,
  JsonAnswer,
  Method,
  OtherAnswerer,
  RequestClient,
  Route,
  RouteCall,
  RouteErrors,
} from "./route.ts";
import { checker, COUNT, storedReader, tagged } from "./schema.ts";
import { eventText, type SseMessage } from "@tare/wire/internal/sse";

export interface Dispatcher {
  /** Answers a request. Never rejects. */
  readonly answer: (request: Request, client?: RequestClient) => Promise<Response>;
  readonly isPublic: (request: Request) => boolean;
  /** Returns the path of a route or protocol, `gateway`, `files` or `none`. */
  readonly placeOf: (response: Response) => string;
}

export interface DispatchOptions {
  /** Maximum bytes of a request body. */
  readonly maxBodyBytes: number;
  readonly store: Store;
  /** Public files for `GET` and `HEAD`, by path. Default: none. */
  readonly files?: ReadonlyMap<string, (request: Request) => Response> | undefined;
  /** Returns the error format of a path without a route. */
  readonly respondAt: (pathname: string) => RouteErrors["respond"];
  readonly onError: (error: unknown) => void;
  /** Gateway for requests without a route, and for other methods of a path that it `takes`. Default: none. */
  readonly gateway?: Pick<HttpGateway, "fetch" | "takes"> | undefined;
  /** Throws if the caller has no access to a route. Default: all have. */
  readonly admit?: (route: Route, call: Pick<RouteCall, "caller" | "path">) => Promise<void>;
}

type ReadTexts = ReturnType<typeof textReader>;

interface Entry {
  readonly route: Route;
  readonly parts: readonly Part[];
  readonly query: ReadTexts;
  readonly headers: ReadTexts;
  readonly check: (body: unknown) => string | undefined;
}

interface Part {
  readonly word?: string;
  readonly name?: string;
}

/** Routes, validates and answers requests. Paths are decoded once; errors are responses. */
export function dispatcher(
  routes: readonly Route[],
  { maxBodyBytes: maxBytes, store, files, onError, gateway, admit, respondAt }: DispatchOptions,
): Dispatcher {
  const entries = routes.map((route): Entry => ({
    route,
    parts: partsOf(route.path),
    query: textReader(route.query ?? {}, "the query"),
    headers: textReader(route.headers ?? {}, "the headers"),
    check: checker(route.body ?? Type.Unknown(), "the body"),
  }));
  const publicPaths = new Set(routes.flatMap(({ isPublic, path }) => isPublic ? [path] : []));
  const fileOf = (request: Request, pathname: string) =>
    methodOf(request) === "GET" ? files?.get(pathname) : undefined;
  const places = new WeakMap<Response, string>();
  const dispatch = async (
    request: Request,
    { caller, signal, found }: Pick<RouteCall, "caller" | "signal"> & {
      readonly found: (place: string) => void;
    },
  ): Promise<Response> => {
    const url = new URL(request.url);
    const { pathname } = url;
    const file = fileOf(request, pathname);
    if (file) {
      found("files");
      return file(request);
    }
    let respond: RouteErrors["respond"] = (error) => respondAt(pathname)(error);
    try {
      const parts = readPath(pathname);
      if (!parts) {
        const why = "a percent-encoded part of it isn't UTF-8";
        throw invalidRequest(`Cannot find ${pathname}: ${why}.`);
      }
      const fitting = entries.flatMap((entry) => {
        const path = match(entry.parts, parts);
        return path ? [{ ...entry, path }] : [];
      });
      const fits = fitting.find(({ route }) => route.method === methodOf(request));
      if (!fits) {
        const allowed = fitting.flatMap(({ route: { method } }) =>
          method === "GET" ? ["GET", "HEAD"] : method
        );
        const isTheirs = gateway && (allowed.length === 0 || gateway.takes(request));
        const answered = isTheirs && await gateway.fetch(request, { caller, signal });
        if (answered) {
          found(PROTOCOLS.some(({ path }) => `/v1${path}` === pathname) ? pathname : "gateway");
          return answered;
        }
        throw noRoute(request, pathname, allowed);
      }
      const { route, path, check } = fits;
      found(route.path);
      const { other, body, lines } = route;
      respond = route.errors?.respond ?? errorResponse;
      const readsBody = body !== undefined || lines !== undefined;
      const bytes = readsBody ? await readRequestBytes(request, { maxBytes, other }) : new Uint8Array();
      if (other && (!bytes || other.isIts(bytes))) {
        return await other.answer(request, { caller, signal, body: bytes });
      }
      await admit?.(route, { caller, path });
      const call: RouteCall = {
        request,
        signal,
        caller,
        path,
        query: fits.query((name) => url.searchParams.get(name)),
        headers: fits.headers((name) => request.headers.get(name)),
        body: readsBody
          ? parseRequestBody(request, { bytes, maxBytes, check, lines: lines !== undefined })
          : undefined,
        keep: () => [],
      };
      const answer = async (call: RouteCall) => {
        try {
          return toResponse(await route.answer(call));
        } catch (error) {
          throw await route.explain?.(error, call) ?? error;
        }
      };
      // Reads have no effect that could be repeated.
      const key = route.method === "GET" || route.isSentOnce ? null : request.headers.get("idempotency-key");
      if (key === null) return await answer(call);
      return await answerOnce(route, call, { store, key, bytes: bytes ?? new Uint8Array(), answer });
    } catch (error) {
      const response = respond(error);
      // Errors after a disconnect aren't reported.
      const isBug = response.status >= 500 && !(error instanceof HttpError) && !signal.aborted;
      if (isBug) onError(error);
      return response;
    }
  };
  return {
    answer: (request, { caller = Keys.OWNER, signal: client } = {}) =>
      Telemetry.inTraceOf(request, async () => {
        let place = "none";
        const found = (at: string) => place = at;
        const response = await withClientSignal(
          client,
          ({ signal }) => dispatch(request, { caller, signal, found }),
        );
        places.set(response, place);
        return response;
      }),
    placeOf: (response) => places.get(response) ?? "none",
    isPublic: (request) => {
      const { pathname } = new URL(request.url);
      return publicPaths.has(pathname) || fileOf(request, pathname) !== undefined;
    },
  };
}

export function toResponse(answer: Answered): Response {
  if (answer instanceof Response) return answer;
  const { json, ...init } = answer;
  return Response.json(json, { ...init, headers: { ...init.headers } });
}

/** The HTTP layer omits the body for `HEAD`. */
function methodOf({ method }: Pick<Request, "method">): Method | string {
  return method === "HEAD" ? "GET" : method;
}

function partsOf(path: string): readonly Part[] {
  return path.slice(1).split("/").map((part) => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    return name === undefined ? { word: part } : { name };
  });
}

function match(parts: readonly Part[], path: readonly string[]): Record<string, string> | undefined {
  if (parts.length !== path.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [at, { word, name }] of parts.entries()) {
    const value = path[at]!;
    if (name === undefined ? value !== word : value === "") return undefined;
    if (name !== undefined) parameters[name] = value;
  }
  return parameters;
}

function noRoute({ method }: Request, pathname: string, allowed: readonly string[]): HttpError {
  if (allowed.length === 0) {
    return notFound(`Not found: there is no route ${pathname}.`);
  }
  const allow = allowed.join(", ");
  const message = `Method not allowed: ${pathname} accepts ${allow}, not ${method}.`;
  return new HttpError(405, "method_not_allowed", message, { allow });
}

/** Media type of line-delimited JSON. */
export const LINES = "application/x-ndjson";

/**
 * Reads and decompresses a body, up to `maxBytes` or, for `other`, its limit; `undefined` for unknown encodings.
 * @throws {HttpError} 413 if it is too large, 400 if it isn't compressed as it states.
 */
export async function readRequestBytes(
  request: Request,
  { maxBytes, other }: { readonly maxBytes: number; readonly other?: OtherAnswerer | undefined },
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    if (!other) return await readBody(request, { maxBytes });
    return await readBody(request, {
      maxBytes: other.maxBodyBytes,
      early: {
        bytes: maxBytes,
        limit(begin) {
          const isIts = other.isIts(begin);
          return isIts === undefined ? undefined : isIts ? other.maxBodyBytes : maxBytes;
        },
      },
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status, message, details: { code } } = error;
    throw new HttpError(status, code as ErrorCode, message);
  }
}

/**
 * Parses a body: JSON that `check` accepts (no bytes are `{}`), or lines of JSON as text.
 * @throws {HttpError} 415 for another content type (which web pages could send without a preflight), 413 if too
 * large, 400 if it isn't UTF-8 or JSON, exceeds {@linkcode jsonExcess}, or `check` finds faults.
 */
export function parseRequestBody(
  { headers }: Request,
  { bytes, maxBytes, lines = false, check }: {
    /** Absent: unknown encoding. */
    readonly bytes: Uint8Array<ArrayBuffer> | undefined;
    readonly maxBytes: number;
    readonly lines?: boolean;
    readonly check: (value: unknown) => string | undefined;
  },
): unknown {
  if (!bytes) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-encoding ${headers.get("content-encoding")} is not supported.`,
    );
  }
  if (bytes.length > maxBytes) {
    throw new HttpError(
      413,
      "body_too_large",
      `Cannot read the body: it has more than ${maxBytes} bytes.`,
    );
  }
  const wanted = lines ? LINES : "application/json";
  const declared = headers.get("content-type") ?? "none";
  if (bytes.length > 0 && declared.split(";")[0]?.trim().toLowerCase() !== wanted) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-type is ${declared}; send ${wanted}.`,
    );
  }
  const excess = lines ? excessOfLines(bytes) : jsonExcess(bytes);
  if (excess !== undefined) throw invalidRequest(`Cannot use the body: ${excess}.`);
  return lines ? decode(bytes) : parseJson(bytes, check);
}

function excessOfLines(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  for (let start = 0, number = 1; start < bytes.length; number++) {
    const newline = bytes.indexOf(NEWLINE, start);
    const end = newline < 0 ? bytes.length : newline;
    const excess = jsonExcess(bytes.subarray(start, end));
    if (excess !== undefined) return `in line ${number}, ${excess}`;
    start = end + 1;
  }
  return undefined;
}

const NEWLINE = 0x0a;

function decode(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new HttpError(400, "invalid_json", "Cannot read the body: it isn't UTF-8.");
  }
}

function parseJson(bytes: Uint8Array<ArrayBuffer>, check: (value: unknown) => string | undefined): unknown {
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(decode(bytes));
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw new HttpError(400, "invalid_json", `Cannot read the body: ${(error as Error).message}.`);
  }
  const faults = check(value);
  if (faults !== undefined) throw invalidRequest(`Cannot use the body: ${faults}.`);
  return value;
}

/** `what` names the query or headers in errors. */
function textReader(
  properties: TProperties,
  what: string,
): (textOf: (name: string) => string | null) => Readonly<Record<string, unknown>> {
  const schemas = Object.entries(properties as Readonly<Record<string, TextSchema>>);
  if (schemas.length === 0) return () => ({});
  const check = checker(Type.Object(properties), what);
  return (textOf) => {
    const values: Record<string, unknown> = {};
    for (const [name, schema] of schemas) {
      const text = textOf(name);
      const value = text === null ? schema.default : valueOf(text, schema);
      if (value !== undefined) values[name] = value;
    }
    const faults = check(values);
    if (faults === undefined) return values;
    throw invalidRequest(`Cannot use ${what}: ${faults}.`);
  };
}

interface TextSchema {
  readonly type?: string;
  readonly default?: unknown;
}

/** The schema refuses unconverted text. */
function valueOf(text: string, { type }: TextSchema): unknown {
  // Longer numbers lose digits.
  if (type === "integer" && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

/** `interrupted`: its outcome is unknown. */
const STORED_ANSWER = tagged("kind", {
  response: Type.Object({
    status: Type.Integer(),
    headers: Type.Unsafe<Readonly<Record<string, string>>>({
      type: "object",
      additionalProperties: { type: "string" },
    }),
    body: Type.String(),
  }),
  /** Larger than stored; the request has had its effect. */
  too_large: Type.Object({ status: Type.Integer(), chars: COUNT }),
  reference: Type.Object({ reference: Type.String() }),
  interrupted: Type.Object({}),
});
type StoredAnswer = Readonly<Static<typeof STORED_ANSWER>>;

type Answerer = (call: RouteCall) => Promise<Response>;

const readStoredAnswer = storedReader(STORED_ANSWER, "the answer for an Idempotency-Key");

/** Thousands of keys are stored. */
const MAX_STORED_CHARS = 64 * 1024;

const STORED_HEADERS = ["content-type", "location"];

/** @throws {HttpError} 400 if the key is invalid. */
function keyOf(
  { method, path: template }: Route,
  { path, caller }: Pick<RouteCall, "path" | "caller">,
  key: string,
): Parameters<Store["releaseKey"]>[0] {
  // Independent of the client's encoding.
  const place = template.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(path[name] ?? ""));
  if (/^[\x20-\x7e]{1,255}$/.test(key)) {
    // Keys of different callers are separate.
    const by = Keys.nameOf(caller);
    return { scope: `${by === undefined ? "" : `${by} `}${method} ${place}`, key };
  }
  throw invalidRequest(
    `Cannot use the Idempotency-Key: it has ${key.length} characters; send 1 to 255 of printable ASCII.`,
  );
}

/**
 * Answers a request with this key and body once. Failed requests release their key, as do streams without a
 * reference, and deletions if the store is full.
 * @throws {HttpError} 400 if the key is invalid, 422 for another body, 409 while a request with it runs or if the
 * server stopped meanwhile, and the route's errors.
 */
async function answerOnce(
  route: Route,
  call: RouteCall,
  { store, key: sent, bytes, answer }: {
    readonly store: Store;
    readonly key: string;
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly answer: Answerer;
  },
): Promise<Response> {
  const key = keyOf(route, call, sent);
  const bodyHash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
  const claim = await store.claimKey({ ...key, bodyHash, isAtomic: route.isAtomic ?? false }).catch((error) =>
    allowFull(route, error)
  );
  if (!claim) return await answer(call);
  switch (claim.state) {
    case "new":
      return await act(route, call, { store, key, answer });
    case "done":
      return await replay(route, call, readStoredAnswer(claim.response));
    case "interrupted": {
      const stored: StoredAnswer = { kind: "interrupted" };
      await store.commit([{ type: "response", ...key, response: stored }]);
      return await replay(route, call, stored);
    }
    case "running":
      throw new HttpError(
        409,
        "idempotency_key_in_use",
        "Conflict: a request with this Idempotency-Key is in progress; retry.",
        { "retry-after": "1" },
      );
    case "mismatch":
      throw new HttpError(
        422,
        "idempotency_key_reused",
        "Cannot use this Idempotency-Key: it was sent with another body before. A new request needs a " +
          "new key.",
      );
  }
}

async function act(
  route: Route,
  call: RouteCall,
  { store, key, answer }: {
    readonly store: Store;
    readonly key: Parameters<Store["releaseKey"]>[0];
    readonly answer: Answerer;
  },
): Promise<Response> {
  let session: { readonly sessionId?: string } = {};
  let isStored = false;
  const record = (response: StoredAnswer) => ({ type: "response", ...key, ...session, response }) as const;
  try {
    const response = await answer({
      ...call,
      keep({ sessionId, answer, reference }) {
        session = sessionId === undefined ? {} : { sessionId };
        isStored = answer !== undefined || reference !== undefined;
        if (reference !== undefined) return [record({ kind: "reference", reference })];
        return answer ? [record(storedAnswer(answer))] : [];
      },
    });
    if (isStored) return response;
    if (!response.ok || isStream(response)) {
      await store.releaseKey(key);
      return response;
    }
    const { status, headers } = response;
    const body = await response.text();
    await store.commit([record(stored({ status, headers, body }))]).catch(async (error) => {
      allowFull(route, error);
      await store.releaseKey(key).catch((error) => allowFull(route, error));
    });
    return new Response(body === "" ? null : body, { status, headers });
  } catch (error) {
    // A committed key is not released.
    await store.releaseKey(key);
    throw error;
  }
}

function allowFull({ method }: Route, error: unknown): undefined {
  if (method !== "DELETE" || !(error instanceof StoreError && error.code === "full")) throw error;
}

function storedAnswer({ status = 200, headers = {}, json }: JsonAnswer): StoredAnswer {
  const all = new Headers({ "content-type": "application/json", ...headers });
  return stored({ status, headers: all, body: JSON.stringify(json) });
}

function stored(
  { status, headers, body }: Pick<Response, "status" | "headers"> & { readonly body: string },
): StoredAnswer {
  if (body.length > MAX_STORED_CHARS) return { kind: "too_large", status, chars: body.length };
  const named = Object.fromEntries([...headers].filter(([name]) => STORED_HEADERS.includes(name)));
  return { kind: "response", status, headers: named, body };
}

async function replay(route: Route, call: RouteCall, stored: StoredAnswer): Promise<Response> {
  switch (stored.kind) {
    case "response": {
      const { status, headers, body } = stored;
      return marked(new Response(body === "" ? null : body, { status, headers }));
    }
    case "too_large":
      throw new HttpError(
        409,
        "idempotency_answer_not_stored",
        `Conflict: the first request with this Idempotency-Key was answered with ${stored.status}, but ` +
          `its ${stored.chars} characters exceed the ${MAX_STORED_CHARS} that are stored. Check the current ` +
          "state.",
      );
    case "reference":
      if (!route.replay) throw new Error(`Cannot replay ${call.request.url}: its route has no replay().`);
      return marked(await route.replay(call, stored.reference));
    case "interrupted":
      throw new HttpError(
        409,
        "idempotency_key_interrupted",
        "Conflict: the outcome of the first request with this Idempotency-Key is unknown, because the " +
          "server stopped. Check the current state; a request with a new key runs again.",
      );
  }
}

function marked(response: Response): Response {
  response.headers.set("idempotent-replayed", "true");
  return response;
}

function isStream({ headers }: Response): boolean {
  return headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

/** Heartbeats of an idle stream. */
export interface Heartbeat {
  /** Silence before a comment, in milliseconds. Default: 15,000. */
  readonly intervalMs?: number;
  /** Calls back after `ms`, unless the returned function is called first. Default: a real timer. */
  readonly after?: (ms: number, callback: () => void) => () => void;
}

/**
 * Returns a stream of server-sent events, with a comment after each silence. It is pulled as fast as the client
 * reads, and its timer runs only while it waits, so a slow client costs neither memory nor a timer. A disconnect ends
 * the iteration.
 */
export function sseResponse(messages: AsyncIterable<SseMessage>, heartbeat: Heartbeat = {}): Response {
  const { intervalMs = 15_000, after = afterMs } = heartbeat;
  const iterator = messages[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<SseMessage>> | undefined;
  let stopTimer = () => {};
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      next ??= iterator.next();
      const quiet = Promise.withResolvers<undefined>();
      stopTimer = after(intervalMs, () => quiet.resolve(undefined));
      try {
        const result = await Promise.race([next, quiet.promise]);
        if (result === undefined) return controller.enqueue(encoder.encode(": heartbeat\n\n"));
        next = undefined;
        if (result.done) controller.close();
        else controller.enqueue(encoder.encode(eventText(result.value)));
      } finally {
        stopTimer();
      }
    },
    cancel() {
      stopTimer();
      // Not awaited: a generator can't end before its next event.
      iterator.return?.().catch(() => {});
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      // Prevents buffering by reverse proxies such as nginx.
      "x-accel-buffering": "no",
    },
  });
}

function afterMs(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms);
  return () => clearTimeout(timer);
}
