import { errorResponse, HttpError } from "./http_error.ts";

/**
 * Puts a guard before `answer`: it refuses requests with too many header bytes (431), for another host (421), from
 * pages of other origins (403) and without the token (401), answers preflight requests, and adds to each answer the
 * headers that a browser looks for. `isPublic` says which requests need no token, `onError` is told of what clients don't get to read.
 */
export function guard(
  answer: (request: Request) => Promise<Response>,
  options: {
    /** The bearer token that requests must carry. Default: none is asked for. */
    readonly token?: string;
    /**
     * Host names that requests may name, as URLs write them; `*` stands for every IP address. Default: those of loopback.
     */
    readonly hosts?: readonly string[];
    /** Origins whose pages may use the server, such as `https://chat.example`. Default: none but its own. */
    readonly origins?: readonly string[];
    /** Most bytes that a request's headers may have together. Default: 16 KiB. */
    readonly maxHeaderBytes?: number;
  } & {
    readonly isPublic: (request: Request) => boolean;
    readonly onError: (error: unknown) => void;
  },
): (request: Request) => Promise<Response> {
  const { token, hosts = LOOPBACK_HOSTS, origins = [], maxHeaderBytes = 16 * 1024, isPublic, onError } =
    options;
  const isOurs = hostRule(hosts);
  const carriesToken = token === undefined ? () => Promise.resolve(true) : bearerToken(token);
  const pages = crossOrigin(origins);

  const check = async (request: Request): Promise<Response | undefined> => {
    if (headerBytes(request.headers) > maxHeaderBytes) {
      throw new HttpError(
        431,
        "headers_too_large",
        `Cannot read the request: its headers have more than ${maxHeaderBytes} bytes.`,
      );
    }
    if (!isOurs(request)) {
      throw new HttpError(
        421,
        "host_not_allowed",
        "Cannot answer for the host that the request names: TARE_ALLOWED_HOSTS lists names beside the server's own.",
      );
    }
    const preflight = pages.check(request);
    if (preflight) return preflight;
    if (!isPublic(request) && !await carriesToken(request)) {
      throw new HttpError(
        401,
        "unauthorized",
        "Cannot let the request in: it must carry the server's token, as in Authorization: Bearer TOKEN.",
        { "www-authenticate": "Bearer" },
      );
    }
    return undefined;
  };

  const refuse = (error: unknown) => {
    if (!(error instanceof HttpError)) onError(error);
    return errorResponse(error);
  };

  return async (request) => {
    const response = await check(request).catch(refuse) ?? await answer(request);
    pages.allow(request, response);
    // Archived text must not be taken for a page.
    response.headers.set("x-content-type-options", "nosniff");
    return response;
  };
}

/** Bytes of the headers as HTTP/1.1 writes them: each as `name: value` and a line break. */
function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of headers) bytes += name.length + value.length + 4;
  return bytes;
}

/**
 * Makes a function that tells whether a request carries this bearer token. It compares hashes of equal length, byte
 * for byte to the end, so that the time it takes tells nothing about the token.
 */
function bearerToken(token: string): (request: Request) => Promise<boolean> {
  let wanted: Promise<Uint8Array> | undefined;
  return async ({ headers }) => {
    const given = /^bearer +(.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
    const [a, b] = await Promise.all([wanted ??= sha256(token), sha256(given)]);
    let difference = 0;
    for (const [index, byte] of a.entries()) difference |= byte ^ (b[index] ?? 0);
    return difference === 0;
  };
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

/** Names under which every machine knows itself. */
export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** Addresses that stand for all of a machine's. */
const WILDCARDS: readonly string[] = ["0.0.0.0", "[::]"];

/** Whether only this machine itself can reach a server that listens on this host. */
export function isLoopback(host: string): boolean {
  const name = hostName(host);
  return name === "localhost" || name === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(name);
}

/**
 * The host names that requests to a server on `host` may name: its own, those of loopback if it listens there, and
 * those configured besides. On all addresses at once (`0.0.0.0`, `::`) every IP address is its own, which
 * {@linkcode hostRule} is told by `*`.
 */
export function allowedHosts(host: string, extra: readonly string[] = []): readonly string[] {
  const name = hostName(host);
  const isWildcard = WILDCARDS.includes(name);
  return [
    name,
    ...(isWildcard || isLoopback(host) ? LOOPBACK_HOSTS : []),
    ...(isWildcard ? ["*"] : []),
    ...extra.map(hostName),
  ];
}

/**
 * Makes a function that tells whether a request was meant for this server. A web page can point a name of its own at
 * this machine (DNS rebinding), but then its requests carry that name. An IP address can't be pointed elsewhere, so
 * with `*` among the hosts each one is right.
 */
export function hostRule(hosts: readonly string[]): (request: Request) => boolean {
  const isAllowed = (name: string) =>
    hosts.includes(name) || (hosts.includes("*") && /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\])$/.test(name));
  return ({ url, headers }) => {
    const named = headers.get("host");
    // They differ if the request line names a host of its own.
    return isAllowed(new URL(url).hostname) && (named === null || isAllowed(hostName(named)));
  };
}

/** A host as URLs write it: in lower case, IPv6 in brackets, without a port. */
function hostName(host: string): string {
  const address = host.includes(":") && !host.startsWith("[") && host.split(":").length > 2
    ? `[${host}]`
    : host;
  return URL.parse(`http://${address}`)?.hostname ?? host.toLowerCase();
}

/** What pages of other origins may do. */
interface CrossOrigin {
  /**
   * Answers a preflight request; gives nothing for other requests that may go on.
   *
   * @throws {HttpError} 403 if the request comes from a page of another origin that wasn't configured.
   */
  readonly check: (request: Request) => Response | undefined;
  /** Lets the page that sent the request read the answer, if it may. */
  readonly allow: (request: Request, response: Response) => void;
}

/** How long browsers may remember a preflight's answer, in seconds. */
const MAX_AGE_S = 600;

/**
 * Rules for pages of other origins: those of `origins`, such as `https://chat.example`, may use the server, others may
 * not. A request without `Origin` doesn't come from a script of another page, one whose origin names our own host and
 * port comes from our own.
 */
export function crossOrigin(origins: readonly string[]): CrossOrigin {
  const configured = (origin: string | null): origin is string => origin !== null && origins.includes(origin);
  return {
    check(request) {
      const { headers, method, url } = request;
      const origin = headers.get("origin");
      if (origin === null) return undefined;
      if (!configured(origin)) {
        // Not the whole origin: behind a proxy that ends TLS its scheme differs from ours.
        if (URL.parse(origin)?.host === new URL(url).host) return undefined;
        throw new HttpError(
          403,
          "origin_not_allowed",
          `Cannot let pages of ${origin} use this server: TARE_CORS_ORIGINS doesn't list that origin.`,
        );
      }
      const isPreflight = method === "OPTIONS" && headers.has("access-control-request-method");
      if (!isPreflight) return undefined;
      return new Response(null, {
        status: 204,
        headers: {
          "access-control-allow-methods": "GET, POST, DELETE",
          "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
          "access-control-max-age": String(MAX_AGE_S),
        },
      });
    },
    allow({ headers: asked }, { headers }) {
      if (origins.length > 0) headers.append("vary", "origin");
      const origin = asked.get("origin");
      if (!configured(origin)) return;
      headers.set("access-control-allow-origin", origin);
      headers.set("access-control-expose-headers", "location, retry-after, idempotent-replayed");
    },
  };
}
