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

/** What answers requests by a table of routes. */
export interface Dispatcher {
  /** Answers a request. Never rejects. */
  readonly answer: (request: Request, client?: RequestClient) => Promise<Response>;
  readonly isPublic: (request: Request) => boolean;
  /** Where a request was answered: path of a route or protocol, `gateway`, `files` or `none`. */
  readonly placeOf: (response: Response) => string;
}

/** What requests are dispatched with. */
export interface DispatchOptions {
  /** Largest request body in bytes. */
  readonly maxBodyBytes: number;
  /** Keeps answers to requests with an `Idempotency-Key`. */
  readonly store: Store;
  /** What is served beside the routes, to whoever comes with `GET` or `HEAD`, by path. Default: nothing. */
  readonly files?: ReadonlyMap<string, (request: Request) => Response> | undefined;
  /** How errors are reported at a path while no route is found. */
  readonly respondAt: (pathname: string) => RouteErrors["respond"];
  readonly onError: (error: unknown) => void;
  /** Answers requests without a route; for another method of a route's path, only if it `takes` it. Default: refused. */
  readonly gateway?: Pick<HttpGateway, "fetch" | "takes"> | undefined;
  /** Called before a route answers. Default: everybody may. @throws {HttpError} if whoever asks may not. */
  readonly admit?: (route: Route, call: Pick<RouteCall, "asker" | "path">) => Promise<void>;
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

/** Returns what routes, reads, validates and answers requests. Paths are decoded once; errors are responses. */
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
    { asker, signal, found }: Pick<RouteCall, "asker" | "signal"> & {
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
        const why = "what stands behind a % in it isn't UTF-8";
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
        const answered = isTheirs && await gateway.fetch(request, { asker, signal });
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
        return await other.answer(request, { asker, signal, body: bytes });
      }
      await admit?.(route, { asker, path });
      const call: RouteCall = {
        request,
        signal,
        asker,
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
      // Reading again has no effect anyway.
      const key = route.method === "GET" || route.isToldOnce ? null : request.headers.get("idempotency-key");
      if (key === null) return await answer(call);
      return await answerOnce(route, call, { store, key, bytes: bytes ?? new Uint8Array(), answer });
    } catch (error) {
      const response = respond(error);
      // Nobody waits for an answer to a request that its client broke off.
      const isBug = response.status >= 500 && !(error instanceof HttpError) && !signal.aborted;
      if (isBug) onError(error);
      return response;
    }
  };
  return {
    answer: (request, { asker = Keys.OWNER, signal: client } = {}) =>
      Telemetry.inTraceOf(request, async () => {
        let place = "none";
        const found = (at: string) => place = at;
        const response = await withClientSignal(
          client,
          ({ signal }) => dispatch(request, { asker, signal, found }),
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

/** The method of the route that answers a request: who serves HTTP sends no body in answer to `HEAD`. */
function methodOf({ method }: Pick<Request, "method">): Method | string {
  return method === "HEAD" ? "GET" : method;
}

function partsOf(path: string): readonly Part[] {
  return path.slice(1).split("/").map((part) => {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    return name === undefined ? { word: part } : { name };
  });
}

/** The parameters of a path that fits; nothing of one that doesn't. */
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
    return notFound(`Cannot find ${pathname}: there is no such route.`);
  }
  const allow = allowed.join(", ");
  const message = `Cannot ${method} ${pathname}: it takes ${allow}.`;
  return new HttpError(405, "method_not_allowed", message, { allow });
}

/** Media type of JSON values, one a line. */
export const LINES = "application/x-ndjson";

/**
 * Reads and decompresses a body, up to `maxBytes` or, for `other`, its limit; `undefined` for unknown encodings.
 *
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
 * What the bytes of a body say: JSON that `check` finds no faults in, where no bytes count as `{}`, or lines of it as
 * text.
 *
 * @throws {HttpError} 415 if it isn't declared as what is wanted (so that no web page can send it without asking), 413 if
 * it is too large, 400 if it isn't UTF-8 or JSON, it or one of its lines is nested too deep or holds too many values
 * ({@linkcode jsonExcess}), or `check` finds faults.
 */
export function parseRequestBody(
  { headers }: Request,
  { bytes, maxBytes, lines = false, check }: {
    /** Absent: compressed in an unknown way. */
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
      `Cannot read the body: its content-encoding is ${
        headers.get("content-encoding")
      }, which can't be decoded here.`,
    );
  }
  if (bytes.length > maxBytes) {
    throw new HttpError(413, "body_too_large", `Cannot read the body: it has more than ${maxBytes} bytes.`);
  }
  const wanted = lines ? LINES : "application/json";
  const declared = headers.get("content-type") ?? "none";
  if (bytes.length > 0 && declared.split(";")[0]?.trim().toLowerCase() !== wanted) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-type is ${declared}, and ${wanted} is wanted.`,
    );
  }
  const excess = lines ? excessOfLines(bytes) : jsonExcess(bytes);
  if (excess !== undefined) throw invalidRequest(`Cannot use the body: ${excess}.`);
  return lines ? decode(bytes) : parseJson(bytes, check);
}

/** Returns what is too much in one of the lines: each is a JSON text of its own. */
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

/** Returns a reader of a query or of headers by schema, with defaults; `what` names them in errors. */
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

/** As much of a schema as says what a text is. */
interface TextSchema {
  readonly type?: string;
  readonly default?: unknown;
}

/** What a text says; the text itself if it doesn't say that, for the schema to refuse. */
function valueOf(text: string, { type }: TextSchema): unknown {
  // More digits than a number holds are no number of ours.
  if (type === "integer" && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

/** Record of a key: the response, a reference to replay it by, or that its outcome is unknown. */
const KEPT = tagged("kind", {
  response: Type.Object({
    status: Type.Integer(),
    headers: Type.Unsafe<Readonly<Record<string, string>>>({
      type: "object",
      additionalProperties: { type: "string" },
    }),
    body: Type.String(),
  }),
  /** A response that is too large to be kept: the request has had its effect. */
  too_large: Type.Object({ status: Type.Integer(), chars: COUNT }),
  reference: Type.Object({ reference: Type.String() }),
  interrupted: Type.Object({}),
});
type Kept = Readonly<Static<typeof KEPT>>;

type Answerer = (call: RouteCall) => Promise<Response>;

const readKept = storedReader(KEPT, "the answer for an Idempotency-Key");

/** Longest body of a kept response. Thousands of keys are kept. */
const MAX_KEPT_CHARS = 64 * 1024;

/** Headers that a kept response gets back. */
const KEPT_HEADERS = ["content-type", "location"];

/** What a key stands for that a request to a route has sent. @throws {HttpError} 400 if it can't be one. */
function keyOf(
  { method, path: template }: Route,
  { path, asker }: Pick<RouteCall, "path" | "asker">,
  key: string,
): Parameters<Store["releaseKey"]>[0] {
  // However its client has encoded the path.
  const place = template.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(path[name] ?? ""));
  if (/^[\x20-\x7e]{1,255}$/.test(key)) {
    // Nobody gets what another one was answered.
    const by = Keys.nameOf(asker);
    return { scope: `${by === undefined ? "" : `${by} `}${method} ${place}`, key };
  }
  throw invalidRequest(
    `Cannot use the Idempotency-Key: it has ${key.length} characters, and 1 to 255 of printable ASCII are wanted.`,
  );
}

/**
 * Answers a request so that it has its effect once, however often it is sent with this key and body. A request that
 * failed counts as not sent. The key of an answer that can't be given again, a stream without a reference, is given up.
 * So is that of a deletion where the store has no room for it.
 *
 * @throws {HttpError} 400 if the key can't be one; 422 if it came with another body; 409 if a request with it is being
 * worked on, or was when the server stopped; and whatever the route throws.
 */
async function answerOnce(
  route: Route,
  call: RouteCall,
  { store, key: sent, bytes, answer }: {
    readonly store: Store;
    /** As the request has sent it. */
    readonly key: string;
    /** The request's body. */
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
      return await replay(route, call, readKept(claim.response));
    case "interrupted": {
      const kept: Kept = { kind: "interrupted" };
      await store.commit([{ type: "response", ...key, response: kept }]);
      return await replay(route, call, kept);
    }
    case "running":
      throw new HttpError(
        409,
        "idempotency_key_in_use",
        "Cannot answer again yet: a request with this Idempotency-Key is being worked on.",
        { "retry-after": "1" },
      );
    case "mismatch":
      throw new HttpError(
        422,
        "idempotency_key_reused",
        "Cannot use this Idempotency-Key: it came with another body before. A new request needs a new key.",
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
  let isKept = false;
  const record = (response: Kept) => ({ type: "response", ...key, ...session, response }) as const;
  try {
    const response = await answer({
      ...call,
      keep({ sessionId, answer, reference }) {
        session = sessionId === undefined ? {} : { sessionId };
        isKept = answer !== undefined || reference !== undefined;
        if (reference !== undefined) return [record({ kind: "reference", reference })];
        return answer ? [record(keptAnswer(answer))] : [];
      },
    });
    if (isKept) return response;
    if (!response.ok || isStream(response)) {
      await store.releaseKey(key);
      return response;
    }
    const { status, headers } = response;
    const body = await response.text();
    await store.commit([record(kept({ status, headers, body }))]).catch(async (error) => {
      allowFull(route, error);
      await store.releaseKey(key).catch((error) => allowFull(route, error));
    });
    return new Response(body === "" ? null : body, { status, headers });
  } catch (error) {
    // A key whose answer was committed stays as it is.
    await store.releaseKey(key);
    throw error;
  }
}

/** What makes room doesn't wait for room to keep a key in: it acts as if it had come without. */
function allowFull({ method }: Route, error: unknown): undefined {
  if (method !== "DELETE" || !(error instanceof StoreError && error.code === "full")) throw error;
}

function keptAnswer({ status = 200, headers = {}, json }: JsonAnswer): Kept {
  const all = new Headers({ "content-type": "application/json", ...headers });
  return kept({ status, headers: all, body: JSON.stringify(json) });
}

function kept(
  { status, headers, body }: Pick<Response, "status" | "headers"> & { readonly body: string },
): Kept {
  if (body.length > MAX_KEPT_CHARS) return { kind: "too_large", status, chars: body.length };
  const named = Object.fromEntries([...headers].filter(([name]) => KEPT_HEADERS.includes(name)));
  return { kind: "response", status, headers: named, body };
}

async function replay(route: Route, call: RouteCall, kept: Kept): Promise<Response> {
  switch (kept.kind) {
    case "response": {
      const { status, headers, body } = kept;
      return marked(new Response(body === "" ? null : body, { status, headers }));
    }
    case "too_large":
      throw new HttpError(
        409,
        "idempotency_answer_not_kept",
        `Cannot answer again: the first request with this Idempotency-Key was answered with ${kept.status}, and its ` +
          `${kept.chars} characters are more than the ${MAX_KEPT_CHARS} that are kept. Look at what is there.`,
      );
    case "reference":
      if (!route.replay) throw new Error(`Cannot replay ${call.request.url}: its route has no replay().`);
      return marked(await route.replay(call, kept.reference));
    case "interrupted":
      throw new HttpError(
        409,
        "idempotency_key_interrupted",
        "Cannot tell what became of the first request with this Idempotency-Key: the server stopped while it worked " +
          "on it. Look at what is there; a request with a new key acts again.",
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

/** How a stream shows that it is alive while nothing happens. */
export interface Heartbeat {
  /** Silence after which a comment is sent, in milliseconds. Default: 15,000. */
  readonly intervalMs?: number;
  /** Calls back once after so many milliseconds, unless what it returns is called first. Default: the real time. */
  readonly after?: (ms: number, callback: () => void) => () => void;
}

/**
 * An answer that streams these messages as server-sent events, and a comment whenever nothing was sent for a while.
 *
 * Messages are asked for only as fast as the client reads, and the timer runs only while the client waits, so a
 * slow or lost client costs neither memory nor a timer. A client that disconnects ends the iteration.
 */
export function sseResponse(messages: AsyncIterable<SseMessage>, heartbeat: Heartbeat = {}): Response {
  const { intervalMs = 15_000, after = afterMs } = heartbeat;
  const iterator = messages[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<SseMessage>> | undefined;
  let stopTimer = () => {};
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      // Still pending after a heartbeat.
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
      // Not awaited: a generator that waits for its next event can't be ended before it.
      iterator.return?.().catch(() => {});
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      // Else a reverse proxy such as nginx would collect events before it passes them on.
      "x-accel-buffering": "no",
    },
  });
}

function afterMs(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms);
  return () => clearTimeout(timer);
}
