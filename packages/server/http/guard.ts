import { type Asker, Keys } from "@tare/session";
import { PROTOCOLS } from "@tare/wire/internal";
import type { HttpOptions } from "../agent_options.ts";
import { API_PATH } from "./api_path.ts";
import { errorResponse, HttpError, refusedBy } from "./http_error.ts";
import type { RequestClient, Route, RouteCall } from "./route.ts";

/**
 * Puts a guard before `answer`: it refuses requests with too many header bytes (431), for another host (421), from
 * pages of other origins (403), with a key that isn't known or without one (401), and more of a key than it may send
 * (429), answers preflight requests, and adds to each answer the headers that a browser looks for. `answer` is told who
 * asks, and doesn't get to see the key. `isPublic` says which requests need none, `onError` is told of what clients
 * don't get to read.
 */
export function guard(
  answer: (request: Request, client: RequestClient & { readonly asker: Asker }) => Promise<Response>,
  options: Pick<HttpOptions, "guests" | "hosts" | "origins" | "maxHeaderBytes"> & {
    /** Knows the keys that requests carry. Default: whoever asks is the owner. */
    readonly keys?: Pick<Keys, "find" | "count">;
    readonly isPublic: (request: Request) => boolean;
    /** How what is refused at a path is told. Default: as all errors. */
    readonly respondAt?: (pathname: string) => (error: unknown) => Response;
    readonly onError: (error: unknown) => void;
  },
): (request: Request, client?: Pick<RequestClient, "signal">) => Promise<Response> {
  const { keys, guests, hosts = LOOPBACK_HOSTS, origins = [], maxHeaderBytes = 16 * 1024 } = options;
  const { isPublic, respondAt = () => errorResponse, onError } = options;
  const isOurs = hostRule(hosts);
  const pages = crossOrigin(origins);

  const check = (request: Request): Response | undefined => {
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
    if (!isPublic(request)) pages.assertOwn(request);
    return undefined;
  };

  /** Who asks, and the request without the key. */
  const identify = async (request: Request): Promise<readonly [Request, Asker]> => {
    if (!keys) return [request, Keys.OWNER];
    if (isPublic(request)) return [request, Keys.GUEST];
    const carried = secretsIn(request.headers);
    for (const { header, secret } of carried) {
      const asker = await keys.find(secret);
      if (!asker) continue;
      const refusal = keys.count(asker);
      if (refusal) throw refusedBy(refusal);
      const headers = new Headers(request.headers);
      headers.delete(header);
      const { url, method, body } = request;
      return [new Request(url, { method, headers, body }), asker];
    }
    const isOurs = carried.some(({ header, secret }) => header === OWN_HEADER || Keys.isSecret(secret));
    if (guests && !isOurs) return [request, Keys.GUEST];
    throw new HttpError(
      401,
      "unauthorized",
      isOurs
        ? `Cannot let the request in: its key isn't known here, or was removed. ${WHERE_KEYS_ARE}`
        : `Cannot let the request in: it must carry a key of the server, as in Authorization: Bearer KEY. ${WHERE_KEYS_ARE}`,
      { "www-authenticate": "Bearer" },
    );
  };

  return async (request, { signal } = {}) => {
    const guarded = async () => {
      const refused = check(request);
      if (refused) return refused;
      const [asked, asker] = await identify(request);
      return await answer(asked, { asker, signal });
    };
    const response = await guarded().catch((error) => {
      if (!(error instanceof HttpError)) onError(error);
      return respondAt(new URL(request.url).pathname)(error);
    });
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

/** A header for those whose others hold a provider's key. */
const OWN_HEADER = "x-tare-key";

/** The headers in which agents send one of our keys as they would a provider's. */
const KEY_HEADERS = new Set([
  OWN_HEADER,
  ...PROTOCOLS.flatMap(({ auth }) => auth.headers),
]);

/** What of a request's headers may be one of our keys, by the header. */
function secretsIn(headers: Headers): readonly { readonly header: string; readonly secret: string }[] {
  return Array.from(KEY_HEADERS).flatMap((header) => {
    const given = headers.get(header) ?? "";
    const secret = header === "authorization" ? /^bearer +(.+)$/i.exec(given)?.[1] : given;
    return secret ? [{ header, secret: secret.trim() }] : [];
  });
}

/** Names under which every machine knows itself. */
export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** Addresses that stand for all of a machine's. */
const WILDCARDS: readonly string[] = ["0.0.0.0", "[::]"];

/**
 * Returns whether only this machine itself can reach a server that listens on this host.
 *
 * @example
 * ```ts
 * import { assert, assertFalse } from "@std/assert";
 * import { isLoopback } from "@tare/server/internal";
 *
 * assert(isLoopback("127.0.0.1"));
 * assertFalse(isLoopback("0.0.0.0"));
 * ```
 */
export function isLoopback(host: string): boolean {
  const name = hostName(host);
  return name === "localhost" || name === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(name);
}

/**
 * Returns the host names that requests to a server on `host` may name, for `http.hosts` of `agentHandler()`: its own,
 * those of loopback if it listens there, and those configured in addition. A server on all addresses (`0.0.0.0`, `::`)
 * may be named by every IP address, which is `*`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { allowedHosts } from "@tare/server/internal";
 *
 * assertEquals(allowedHosts("192.0.2.7", ["agent.example"]), ["192.0.2.7", "agent.example"]);
 * ```
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

/** Returns whether a request names this server, against DNS rebinding; `*` allows every IP address. */
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
  /** @throws {HttpError} 403 if a browser says that another site made it send this, and that one wasn't configured. */
  readonly assertOwn: (request: Request) => void;
  /** Lets the page that sent the request read the answer, if it may. */
  readonly allow: (request: Request, response: Response) => void;
}

/** How long browsers may remember a preflight's answer, in seconds. */
const MAX_AGE_S = 600;

/** Returns the CORS rules: pages of `origins` and of our own host and port may use the server. */
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
          "access-control-allow-headers":
            "authorization, content-type, idempotency-key, last-event-id, x-tare-key",
          "access-control-max-age": String(MAX_AGE_S),
        },
      });
    },
    assertOwn({ headers }) {
      // Pictures, scripts and links of other pages send no origin, but say this.
      const site = headers.get("sec-fetch-site");
      if (site !== "cross-site" && site !== "same-site" || configured(headers.get("origin"))) return;
      throw new HttpError(
        403,
        "origin_not_allowed",
        "Cannot answer: a page of another site made the browser ask. TARE_CORS_ORIGINS lists pages that may.",
      );
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

/** Returns a check that an asker may use a route and, of a session, is its owner or the server's. */
export function admission(
  { assertSees, keys }: {
    /** @throws {HttpError} 404 unless the asker may see a session. */
    readonly assertSees: (id: string, asker: Asker) => Promise<void>;
    readonly keys?: Pick<Keys, "refusal"> | undefined;
  },
): (route: Route, call: Pick<RouteCall, "asker" | "path">) => Promise<void> {
  return async ({ who, begins, path: template }, { asker, path }) => {
    if (who !== undefined) assertIs(who, asker);
    const refusal = begins ? keys?.refusal(asker, "agent") : undefined;
    if (refusal) throw refusedBy(refusal);
    const { id } = path;
    const isOwner = Keys.nameOf(asker) === undefined;
    if (id !== undefined && !isOwner && template.startsWith(`${API_PATH}/sessions/`)) {
      await assertSees(id, asker);
    }
  };
}

/** For people who are refused for want of a key. */
const WHERE_KEYS_ARE =
  "The owner's is in owner.json of the server's data folder, or what TARE_TOKEN says there; commands send what TARE_TOKEN " +
  "says here.";

/** What only some may do, in words that follow "Cannot". */
const ACTS: Readonly<Record<NonNullable<Route["who"]>, string>> = {
  owner: "do this",
  approve: "say what calls may do",
  metrics: "read the server's figures",
  key: "show this",
};

/** @throws {HttpError} 401 of guests, 403 of keys that may not. */
function assertIs(who: NonNullable<Route["who"]>, asker: Asker): void {
  if (Keys.nameOf(asker) === undefined) return;
  if (asker.name === Keys.GUEST.name) {
    throw new HttpError(
      401,
      "unauthorized",
      `Cannot ${ACTS[who]} without a key: send the owner's, as in Authorization: Bearer KEY. ` +
        WHERE_KEYS_ARE,
      { "www-authenticate": "Bearer" },
    );
  }
  if (who === "owner") {
    throw new HttpError(
      403,
      "owner_only",
      `Cannot ${ACTS[who]} with key ${asker.name}: only ${Keys.OWNER.name} may.`,
    );
  }
  if (who !== "key") assertFor(who, asker);
}

/** @throws {HttpError} 403 unless whoever asks may do this. */
export function assertFor(what: "approve" | "metrics", asker: Asker): void {
  if (asker.routes.includes(what)) return;
  throw new HttpError(
    403,
    "not_for_this_key",
    `Cannot ${ACTS[what]} ${
      asker.name === Keys.GUEST.name ? "without a key" : `with key ${asker.name}`
    }: the owner's may, or one that was added with --routes ${what}.`,
  );
}
