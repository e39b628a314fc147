import { type Caller, Keys } from "@tare/session";
import { PROTOCOLS } from "@tare/wire/internal";
import type { HttpOptions } from "../agent_options.ts";
import { API_PATH } from "./api_path.ts";
import { errorResponse, HttpError, refusedBy } from "./http_error.ts";
import type { RequestClient, Route, RouteCall } from "./route.ts";

/**
 * Refuses large headers (431), other hosts (421), pages of other origins (403), missing or unknown keys (401) and
 * keys above their rate limit (429), answers preflight requests, and adds CORS headers. `answer` receives the caller,
 * not the key; `onError`, errors that are hidden from clients.
 */
export function guard(
  answer: (request: Request, client: RequestClient & { readonly caller: Caller }) => Promise<Response>,
  options: Pick<HttpOptions, "guests" | "hosts" | "origins" | "maxHeaderBytes"> & {
    /** Default: every caller is the owner. */
    readonly keys?: Pick<Keys, "find" | "count">;
    readonly isPublic: (request: Request) => boolean;
    /** Returns the error format of a path. Default: as all errors. */
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
        `Request header fields too large: more than ${maxHeaderBytes} bytes.`,
      );
    }
    if (!isOurs(request)) {
      throw new HttpError(
        421,
        "host_not_allowed",
        "Misdirected request: the server doesn't accept this host name. TARE_ALLOWED_HOSTS lists " +
          "additional names.",
      );
    }
    const preflight = pages.check(request);
    if (preflight) return preflight;
    if (!isPublic(request)) pages.assertOwn(request);
    return undefined;
  };

  const identify = async (request: Request): Promise<readonly [Request, Caller]> => {
    if (!keys) return [request, Keys.OWNER];
    if (isPublic(request)) return [request, Keys.GUEST];
    const carried = secretsIn(request.headers);
    for (const { header, secret } of carried) {
      const caller = await keys.find(secret);
      if (!caller) continue;
      const refusal = keys.count(caller);
      if (refusal) throw refusedBy(refusal);
      const headers = new Headers(request.headers);
      headers.delete(header);
      const { url, method, body } = request;
      return [new Request(url, { method, headers, body }), caller];
    }
    const isOurs = carried.some(({ header, secret }) => header === OWN_HEADER || Keys.isSecret(secret));
    if (guests && !isOurs) return [request, Keys.GUEST];
    throw new HttpError(
      401,
      "unauthorized",
      isOurs
        ? `Unauthorized: the key is unknown or was removed. ${WHERE_KEYS_ARE}`
        : `Unauthorized: send a server key as \`Authorization: Bearer KEY\`. ${WHERE_KEYS_ARE}`,
      { "www-authenticate": "Bearer" },
    );
  };

  return async (request, { signal } = {}) => {
    const guarded = async () => {
      const refused = check(request);
      if (refused) return refused;
      const [incoming, caller] = await identify(request);
      return await answer(incoming, { caller, signal });
    };
    const response = await guarded().catch((error) => {
      if (!(error instanceof HttpError)) onError(error);
      return respondAt(new URL(request.url).pathname)(error);
    });
    pages.allow(request, response);
    // Archived text must not be rendered as a page.
    response.headers.set("x-content-type-options", "nosniff");
    return response;
  };
}

/** Size in HTTP/1.1. */
function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of headers) bytes += name.length + value.length + 4;
  return bytes;
}

/** For clients whose other headers contain a provider's key. */
const OWN_HEADER = "x-tare-key";

const KEY_HEADERS = new Set([
  OWN_HEADER,
  ...PROTOCOLS.flatMap(({ auth }) => auth.headers),
]);

function secretsIn(headers: Headers): readonly { readonly header: string; readonly secret: string }[] {
  return Array.from(KEY_HEADERS).flatMap((header) => {
    const given = headers.get(header) ?? "";
    const secret = header === "authorization" ? /^bearer +(.+)$/i.exec(given)?.[1] : given;
    return secret ? [{ header, secret: secret.trim() }] : [];
  });
}

export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** Addresses that mean all of a machine's. */
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
 * Returns the host names for `http.hosts` of `agentHandler()`: that of a server on `host`, those of loopback if it
 * listens there, and `extra`. On all addresses (`0.0.0.0`, `::`), `*` allows every IP address.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { allowedHosts } from "@tare/server/internal";
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
    // They differ if the request line contains a host.
    return isAllowed(new URL(url).hostname) && (named === null || isAllowed(hostName(named)));
  };
}

/** Normalizes a host as URLs do: lower case, IPv6 in brackets, no port. */
function hostName(host: string): string {
  const address = host.includes(":") && !host.startsWith("[") && host.split(":").length > 2
    ? `[${host}]`
    : host;
  return URL.parse(`http://${address}`)?.hostname ?? host.toLowerCase();
}

interface CrossOrigin {
  /**
   * Answers preflight requests only.
   * @throws {HttpError} 403 for pages of origins that aren't configured.
   */
  readonly check: (request: Request) => Response | undefined;
  /** @throws {HttpError} 403 if another site's page caused the request. */
  readonly assertOwn: (request: Request) => void;
  readonly allow: (request: Request, response: Response) => void;
}

/** Time that browsers cache a preflight's answer. */
const MAX_AGE_S = 600;

/** Returns the CORS rules: pages of `origins` and of the server's own host and port are allowed. */
export function crossOrigin(origins: readonly string[]): CrossOrigin {
  const configured = (origin: string | null): origin is string => origin !== null && origins.includes(origin);
  return {
    check(request) {
      const { headers, method, url } = request;
      const origin = headers.get("origin");
      if (origin === null) return undefined;
      if (!configured(origin)) {
        // A proxy may terminate TLS.
        if (URL.parse(origin)?.host === new URL(url).host) return undefined;
        throw new HttpError(
          403,
          "origin_not_allowed",
          `Forbidden: TARE_CORS_ORIGINS doesn't list the origin ${origin}.`,
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
      // Images, scripts and links send only this header.
      const site = headers.get("sec-fetch-site");
      if (site !== "cross-site" && site !== "same-site" || configured(headers.get("origin"))) return;
      throw new HttpError(
        403,
        "origin_not_allowed",
        "Forbidden: a page of another site sent the request. TARE_CORS_ORIGINS lists the allowed origins.",
      );
    },
    allow({ headers: incoming }, { headers }) {
      if (origins.length > 0) headers.append("vary", "origin");
      const origin = incoming.get("origin");
      if (!configured(origin)) return;
      headers.set("access-control-allow-origin", origin);
      headers.set("access-control-expose-headers", "location, retry-after, idempotent-replayed");
    },
  };
}

/** Returns a check that a caller may use a route and, of a session, is its owner or the server's. */
export function admission(
  { assertSees, keys }: {
    /** @throws {HttpError} 404 if the caller can't see the session. */
    readonly assertSees: (id: string, caller: Caller) => Promise<void>;
    readonly keys?: Pick<Keys, "refusal"> | undefined;
  },
): (route: Route, call: Pick<RouteCall, "caller" | "path">) => Promise<void> {
  return async ({ who, begins, path: template }, { caller, path }) => {
    if (who !== undefined) assertIs(who, caller);
    const refusal = begins ? keys?.refusal(caller, "agent") : undefined;
    if (refusal) throw refusedBy(refusal);
    const { id } = path;
    const isOwner = Keys.nameOf(caller) === undefined;
    if (id !== undefined && !isOwner && template.startsWith(`${API_PATH}/sessions/`)) {
      await assertSees(id, caller);
    }
  };
}

const WHERE_KEYS_ARE =
  "The owner's key is in owner.json in the server's data folder, or is the server's TARE_TOKEN; " +
  "commands send their own TARE_TOKEN.";

const ACTS: Readonly<Record<NonNullable<Route["who"]>, string>> = {
  owner: "do this",
  approve: "approve calls",
  metrics: "read the server's metrics",
  key: "read this",
};

/** @throws {HttpError} 401 for guests, 403 for other keys without access. */
function assertIs(who: NonNullable<Route["who"]>, caller: Caller): void {
  if (Keys.nameOf(caller) === undefined) return;
  if (caller.name === Keys.GUEST.name) {
    throw new HttpError(
      401,
      "unauthorized",
      `Unauthorized: to ${ACTS[who]}, send the owner's key as \`Authorization: Bearer KEY\`. ` +
        WHERE_KEYS_ARE,
      { "www-authenticate": "Bearer" },
    );
  }
  if (who === "owner") {
    throw new HttpError(
      403,
      "owner_only",
      `Forbidden: key ${caller.name} may not ${ACTS[who]}; only ${Keys.OWNER.name} may.`,
    );
  }
  if (who !== "key") assertFor(who, caller);
}

/** @throws {HttpError} 403 if the caller's key doesn't allow it. */
export function assertFor(what: "approve" | "metrics", caller: Caller): void {
  if (caller.routes.includes(what)) return;
  throw new HttpError(
    403,
    "not_for_this_key",
    `Forbidden: ${
      caller.name === Keys.GUEST.name ? "requests without a key" : `key ${caller.name}`
    } may not ` +
      `${ACTS[what]}. Send the owner's key, or one that was added with --routes ${what}.`,
  );
}
