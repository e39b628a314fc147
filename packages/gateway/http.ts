import { Telemetry } from "@tare/session/telemetry";
import { ApiError, CHAT_PROTOCOL, joinBytes, type Protocol } from "@tare/wire/internal";
import type { GatewayOptions, GatewayUpstream } from "./options.ts";
import { promisify } from "node:util";
import * as zlib from "node:zlib";

/** Headers of one connection, of this server, or of a browser. */
const OWN_REQUEST_HEADERS = new RegExp(
  "^(accept-encoding|connection|content-length|cookie|expect|forwarded|host|keep-alive|origin|referer|te|trailer|" +
    "transfer-encoding|upgrade|via|x-tare|(x-tare|proxy|sec|access-control|x-forwarded)-.*)$",
);

/** Headers of a connection or of the encoded body, which `fetch` has decoded. */
const OWN_RESPONSE_HEADERS = new RegExp(
  "^(connection|content-encoding|content-length|keep-alive|proxy-authenticate|set-cookie|trailer|" +
    "transfer-encoding|upgrade|access-control-.*)$",
);

const MAX_QUOTED_BYTES = 1_000;

export interface UpstreamCall {
  readonly upstream: GatewayUpstream;
  /** The client's request: its method, query and most headers are sent. */
  readonly request: Request;
  readonly body?: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Header of the key. Default: a bearer token. */
  readonly auth?: Protocol["auth"];
  /** Headers that are added unless the client sends one of them. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Returns the upstream of a protocol. @throws {RangeError} if there is none. */
export function upstreamOf(
  { name }: Protocol,
  { upstreams }: Pick<GatewayOptions, "upstreams">,
): GatewayUpstream {
  const upstream = upstreams[name];
  if (upstream) return upstream;
  throw new RangeError(`Cannot forward a request of protocol ${name}: no upstream is configured`);
}

/** Sends a request to a path below the upstream's base URL. @throws the error of `fetch`. */
export function askUpstream(
  path: string,
  { upstream: { baseURL, apiKey }, request, body, auth, headers: more = {}, signal }: UpstreamCall,
  { fetch = globalThis.fetch }: Pick<GatewayOptions, "fetch">,
): Promise<Response> {
  const own = Object.keys(more).some((name) => request.headers.has(name)) ? {} : more;
  const keys = apiKey === undefined ? {} : { apiKey };
  return fetch(baseURL.replace(/\/+$/, "") + path + new URL(request.url).search, {
    method: request.method,
    headers: new Headers([
      ...upstreamHeaders(request, { ...keys, ...(auth && { auth }) }),
      ...Object.entries(own),
    ]),
    ...(body && { body }),
    signal,
    redirect: "manual",
  });
}

/** Returns the headers of a client's request that are sent to the upstream. */
export function upstreamHeaders(
  request: Request,
  { apiKey, auth = CHAT_PROTOCOL.auth }: Pick<GatewayUpstream, "apiKey"> & {
    readonly auth?: Protocol["auth"];
  },
): Headers {
  const headers = new Headers();
  const hops = namedByConnection(request);
  for (const [name, value] of request.headers) {
    if (!OWN_REQUEST_HEADERS.test(name) && !hops.has(name)) headers.set(name, value);
  }
  Telemetry.withoutTrace(headers);
  if (apiKey !== undefined) {
    for (const name of auth.headers) headers.delete(name);
    headers.set(auth.name, auth.prefix + apiKey);
  }
  return headers;
}

/** Returns the headers of the upstream's answer that are visible to its client, with `more`. */
export function answerHeaders(response: Response, more: Readonly<Record<string, string>> = {}): Headers {
  const headers = new Headers();
  const hops = namedByConnection(response);
  for (const [name, value] of response.headers) {
    if (!OWN_RESPONSE_HEADERS.test(name) && !hops.has(name)) headers.set(name, value);
  }
  // Otherwise a reverse proxy before this server would buffer the events.
  if (headers.get("content-type")?.includes("text/event-stream")) headers.set("x-accel-buffering", "no");
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  return headers;
}

/** As in RFC 9110, 7.6.1. */
function namedByConnection({ headers }: Pick<Request, "headers">): ReadonlySet<string> {
  const named = headers.get("connection")?.toLowerCase().split(",") ?? [];
  return new Set(named.map((name) => name.trim()));
}

/** Returns the upstream's answer unchanged. */
export function passOn(
  response: Response,
  abort: AbortController,
  more: Readonly<Record<string, string>> = {},
): Response {
  const { status, statusText, body } = response;
  const headers = answerHeaders(response, more);
  return new Response(body && streamOf(body.values(), abort), { status, statusText, headers });
}

/** Returns a stream of these bytes that aborts the upstream when its reader cancels. */
export function streamOf(
  bytes: AsyncIterator<Uint8Array<ArrayBuffer>>,
  abort: AbortController,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isBegun = false;
  return new ReadableStream({
    async pull(controller) {
      isBegun = true;
      const { done, value } = await bytes.next();
      if (done) controller.close();
      else if (value.length > 0) controller.enqueue(value);
      else await this.pull?.(controller);
    },
    async cancel(reason) {
      abort.abort(reason);
      // Ending the iterator records its usage; one that was never started must be started first.
      if (!isBegun) await bytes.next().catch(() => {});
      await bytes.return?.().catch(() => {});
    },
  }, { highWaterMark: 0 });
}

/** Returns the beginning of an answer, to be quoted. The rest isn't read. */
export async function beginningOf({ body }: Response): Promise<string> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const bytes of body ?? []) {
    pieces.push(bytes);
    length += bytes.length;
    if (length >= MAX_QUOTED_BYTES) break;
  }
  return new TextDecoder().decode(joinBytes(pieces).subarray(0, MAX_QUOTED_BYTES));
}

/** Returns the header of a warning: printable ASCII, at most 500 characters. */
export function warned(warning: string | undefined): Readonly<Record<string, string>> {
  return warning === undefined
    ? {}
    : { "x-tare-warning": warning.replaceAll(/[^\x20-\x7e]+/g, " ").slice(0, 500) };
}

type Decode = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Uint8Array>;

/** Decoders by `content-encoding`, if this platform has them. */
const DECODERS: Readonly<Record<string, Decode | undefined>> = {
  gzip: promisify(zlib.gunzip) as Decode,
  "x-gzip": promisify(zlib.gunzip) as Decode,
  deflate: promisify(zlib.inflate) as Decode,
  br: promisify(zlib.brotliDecompress) as Decode,
  zstd: zlib.zstdDecompress && promisify(zlib.zstdDecompress) as Decode,
};

/**
 * Returns the parts of a path, each decoded once: `/v1/a%2Fb` has the parts `v1` and `a/b`. `undefined` if it isn't
 * valid UTF-8.
 */
export function readPath(pathname: string): readonly string[] | undefined {
  try {
    return pathname.slice(1).split("/").map((part) => part.includes("%") ? decodeURIComponent(part) : part);
  } catch {
    return undefined;
  }
}

/**
 * Reads a request's body and decompresses it. Returns `undefined`, and leaves the body unread, if its encoding is not
 * supported.
 * @throws {ApiError} if the body is too large, compressed or not (413), or doesn't match its encoding (400).
 */
export async function readBody(
  request: Request,
  limits: {
    /** Most bytes of the body, compressed or not. */
    readonly maxBytes: number;
    /**
     * Called once when more than `bytes` have arrived, with the first piece, then with all: returns a limit in place of
     * `maxBytes`, or `undefined` if it can't decide.
     */
    readonly early?: {
      readonly bytes: number;
      readonly limit: (begin: Uint8Array<ArrayBuffer>) => number | undefined;
    };
  },
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const encoding = request.headers.get("content-encoding");
  if (encoding === null) {
    const declared = request.headers.get("content-length");
    // A server's runtime enforces the declared length, and reads a whole body faster than its pieces.
    const atOnce = Math.min(limits.maxBytes, limits.early?.bytes ?? Infinity);
    if (declared === null || Number(declared) > atOnce) return await read(request, limits);
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.length > atOnce) throw tooLarge(atOnce);
    return bytes;
  }
  const names = encoding.toLowerCase().split(",").map((name) => name.trim()).filter((name) =>
    name !== "identity"
  );
  const decoders = names.map((name) => Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined);
  if (decoders.includes(undefined)) return undefined;
  const { maxBytes } = limits;
  let body = await readBytes(request, maxBytes);
  try {
    for (const decode of decoders.toReversed()) {
      const decoded = await decode!(body, { maxOutputLength: maxBytes });
      body = new Uint8Array(decoded.buffer as ArrayBuffer, decoded.byteOffset, decoded.byteLength);
    }
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(maxBytes);
    const reason = `it doesn't match its content-encoding, ${encoding}`;
    throw new ApiError(400, `Cannot read the body: ${reason}.`, { code: "invalid_body" });
  }
  return body;
}

/** Reads the body of a request or reply. @throws {ApiError} if it is larger (413). */
export async function readBytes(
  message: Pick<Response, "headers" | "body">,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return await read(message, { maxBytes });
}

async function read(
  { headers, body }: Pick<Response, "headers" | "body">,
  { maxBytes, early }: Parameters<typeof readBody>[1],
): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  let most = maxBytes;
  let isReported = early === undefined;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    chunks.push(chunk);
    if (!isReported && early && length > early.bytes) {
      isReported = true;
      // The relevant field is usually in the first piece: pieces are joined only if it isn't.
      most = early.limit(chunks[0]!) ?? early.limit(joinBytes(chunks)) ?? maxBytes;
    }
    if (length > most) throw tooLarge(most);
  }
  return joinBytes(chunks);
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it has more than ${maxBytes} bytes.`, {
    code: "body_too_large",
  });
}

/**
 * Runs `work` with a controller that is aborted if the request's client disconnects before `work` settles. A client
 * that disconnects later cancels the response's body; `Deno.serve` aborts a request's signal then too, and after each
 * response.
 * @throws The error of `work`.
 */
export async function withClientSignal<T>(
  signal: AbortSignal | undefined,
  work: (abort: AbortController) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const follow = () => abort.abort(signal?.reason);
  if (signal?.aborted) follow();
  else signal?.addEventListener("abort", follow, { once: true });
  try {
    return await work(abort);
  } finally {
    signal?.removeEventListener("abort", follow);
  }
}
