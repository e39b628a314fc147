import { chooseProfile } from "@tare/planner";
import { readModelList } from "@tare/planner/internal";
import { Telemetry } from "@tare/session/telemetry";
import { CHAT_PROTOCOL, joinBytes, type Protocol } from "@tare/wire/internal";
import type { GatewayOptions, GatewayUpstream } from "./options.ts";
import { readBytes } from "./read_request.ts";

/** Headers that belong to one connection, to this server, or to a browser. */
const OWN_REQUEST_HEADERS = new RegExp(
  "^(accept-encoding|connection|content-length|cookie|expect|forwarded|host|keep-alive|origin|referer|te|trailer|" +
    "transfer-encoding|upgrade|via|x-tare|(x-tare|proxy|sec|access-control|x-forwarded)-.*)$",
);

/** Likewise of answers; `fetch` has decoded the body. */
const OWN_RESPONSE_HEADERS = new RegExp(
  "^(connection|content-encoding|content-length|keep-alive|proxy-authenticate|set-cookie|trailer|" +
    "transfer-encoding|upgrade|access-control-.*)$",
);

/** So much of an error is told, in bytes. */
const MAX_QUOTED_BYTES = 1_000;

/** What is sent to the upstream. */
export interface UpstreamCall {
  /** Where it goes. */
  readonly upstream: GatewayUpstream;
  /** The client's request: its method, its query and most of its headers go upstream. */
  readonly request: Request;
  /** Default: none. */
  readonly body?: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>;
  /** How the key is sent. Default: as a bearer token. */
  readonly auth?: Protocol["auth"];
  /** Headers that it has unless its client sends any of them. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Where requests of a protocol go. @throws {RangeError} if that isn't known. */
export function upstreamOf(
  { name }: Protocol,
  { upstreams }: Pick<GatewayOptions, "upstreams">,
): GatewayUpstream {
  const upstream = upstreams[name];
  if (upstream) return upstream;
  throw new RangeError(`Cannot pass a request of protocol ${name} on: it has no upstream`);
}

/** Sends a request to a path behind the upstream's base URL. @throws what `fetch` throws. */
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

/** Headers that a client's request has at the upstream. */
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
  if (apiKey !== undefined) { for (const name of auth.headers) headers.delete(name); }
  if (apiKey !== undefined) headers.set(...auth.header(apiKey));
  return headers;
}

/** Headers of the upstream's answer that its client gets to see, and more of them. */
export function answerHeaders(response: Response, more: Readonly<Record<string, string>> = {}): Headers {
  const headers = new Headers();
  const hops = namedByConnection(response);
  for (const [name, value] of response.headers) {
    if (!OWN_RESPONSE_HEADERS.test(name) && !hops.has(name)) headers.set(name, value);
  }
  // Else a reverse proxy before this server would collect events before it passes them on.
  if (headers.get("content-type")?.includes("text/event-stream")) headers.set("x-accel-buffering", "no");
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  return headers;
}

/** The headers of which a message says that they are for the next one on its way alone (RFC 9110, 7.6.1). */
function namedByConnection({ headers }: Pick<Request, "headers">): ReadonlySet<string> {
  const named = headers.get("connection")?.toLowerCase().split(",") ?? [];
  return new Set(named.map((name) => name.trim()));
}

/** The upstream's answer as it is. */
export function passOn(
  response: Response,
  abort: AbortController,
  more: Readonly<Record<string, string>> = {},
): Response {
  const { status, statusText, body } = response;
  const headers = answerHeaders(response, more);
  return new Response(body && streamOf(body.values(), abort), { status, statusText, headers });
}

/** A stream of these bytes that stops the upstream when its reader leaves. */
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
      // What was said until then is booked: what was never begun ends without that.
      if (!isBegun) await bytes.next().catch(() => {});
      await bytes.return?.().catch(() => {});
    },
  }, { highWaterMark: 0 });
}

/** What an answer begins with, as far as a sentence may quote it. The rest isn't read. */
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

/** The header that tells of a warning, if there is one. A header can't hold everything that a sentence can. */
export function warned(warning: string | undefined): Readonly<Record<string, string>> {
  return warning === undefined
    ? {}
    : { "x-tare-warning": warning.replaceAll(/[^\x20-\x7e]+/g, " ").slice(0, 500) };
}

/** Longest list of models that is read, in bytes: who passes on others' models has hundreds. */
const MAX_LIST_BYTES = 2 ** 23;

/** An answer may take so many looks of so many milliseconds: time for which this process stood still is one of them. */
const MOST_LOOKS = 10;
const LOOK_MS = 100;

/** A server that gave no list is asked again after so long, in milliseconds. */
const PAUSE_MS = 30_000;

/** Whom to ask, and how. */
export interface AskedServer {
  readonly baseURL: string;
  readonly apiKey?: string | undefined;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Milliseconds since some fixed moment. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What a server says of itself. */
export interface ServerProfile {
  /** Name of the profile that it points to, as far as is known by now; asks the server, without waiting, if it isn't. */
  readonly name: () => string | undefined;
  /** The context window of a model in tokens, as far as that is known by now. */
  readonly windowTokens: (model: string) => number | undefined;
  /** Settles when the server has been asked for the first time; never rejects. */
  readonly asked: () => Promise<void>;
  /** Asks no more, and settles when nothing is asked any longer. */
  readonly close: () => Promise<void>;
}

/**
 * Finds out from a provider's list of models how much each reads, and whether it is a server on one's own machine, such
 * as llama.cpp or vLLM: their ports and the names of their models say nothing. A provider that its address tells isn't asked; one that
 * doesn't answer changes nothing.
 */
export function serverProfile(
  { baseURL, apiKey, fetch = globalThis.fetch, now = () => performance.now() }: AskedServer,
): ServerProfile {
  const byAddress = chooseProfile({ baseUrl: baseURL }).name;
  let isKnown = byAddress !== "none" && byAddress !== "local";
  let name: string | undefined;
  let windows: ReadonlyMap<string, number> = new Map();
  let asking: Promise<void> | undefined;
  let askedAt = -Infinity;
  const controller = new AbortController();
  const ask = async () => {
    askedAt = now();
    const late = new AbortController();
    let looked = 0;
    const looks = setInterval(() => ++looked === MOST_LOOKS && late.abort(), LOOK_MS);
    try {
      const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
        redirect: "manual",
        signal: AbortSignal.any([controller.signal, late.signal]),
      });
      const list = JSON.parse(new TextDecoder().decode(await readBytes(response, MAX_LIST_BYTES)));
      ({ profile: name, windows } = readModelList(list));
      // A list without models may have some later.
      isKnown = response.ok && Array.isArray(list?.data) && list.data.length > 0;
    } catch {
      // Whatever answers there says nothing of itself.
    } finally {
      clearInterval(looks);
      asking = undefined;
    }
  };
  const look = () => {
    if (!isKnown && !asking && now() - askedAt >= PAUSE_MS) asking = ask();
  };
  return {
    name() {
      look();
      return name;
    },
    windowTokens(model) {
      look();
      // One's own server answers with the one that it has, however it is called.
      const [only] = name === "local" && windows.size === 1 ? windows.values() : [];
      return windows.get(model) ?? only;
    },
    async asked() {
      if (!isKnown && askedAt === -Infinity) asking = ask();
      await asking;
    },
    async close() {
      isKnown = true;
      controller.abort();
      await asking;
    },
  };
}
