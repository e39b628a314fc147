import { HttpError } from "./http_error.ts";

/** What pages of other origins may do. */
export interface CrossOrigin {
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
