import type { Store } from "@tare/conversation";
import { Type } from "typebox";
import { errorResponse, HttpError } from "./http_error.ts";
import { answerOnce, idempotencyKey, toResponse } from "./idempotency.ts";
import { type ReadBody, readRequestBody } from "./read_request_body.ts";
import type { Route, RouteCall, RouteErrors } from "./route.ts";
import { checker } from "./schema.ts";

/** What requests are dispatched with. */
export interface DispatchOptions {
  /** Largest request body in bytes. */
  readonly maxBodyBytes: number;
  /** Keeps answers to requests with an `Idempotency-Key`. */
  readonly store: Store;
  /** How errors at a path are told while no route is found. */
  readonly respondAt: (pathname: string) => RouteErrors["respond"];
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

interface Entry {
  readonly route: Route;
  readonly pattern: URLPattern;
  readonly check: (body: unknown) => string | undefined;
}

const NO_BODY: ReadBody = { bytes: new Uint8Array(), value: undefined };

/**
 * Makes a function that finds the route of a request, reads and validates what it brings, and lets it answer. The
 * function never rejects: what goes wrong is an answer too.
 */
export function dispatcher(
  routes: readonly Route[],
  { maxBodyBytes: maxBytes, store, respondAt, onError }: DispatchOptions,
): (request: Request) => Promise<Response> {
  const entries = routes.map((route): Entry => ({
    route,
    pattern: patternOf(route),
    check: lateChecker(route),
  }));
  return async (request) => {
    const { pathname } = new URL(request.url);
    let respond = respondAt(pathname);
    try {
      const { route, check, path } = find(entries, request, pathname);
      respond = route.errors?.respond ?? errorResponse;
      const key = idempotencyKey(route, request);
      const { value: body, bytes } = route.body
        ? await readRequestBody(request, { maxBytes, check, ...(route.lines && { lines: true }) })
        : NO_BODY;
      const call: RouteCall = { request, path, body, keep: () => [] };
      if (key) return await answerOnce(route, call, { store, key, bytes });
      return toResponse(await route.answer(call));
    } catch (error) {
      const response = respond(error);
      // Nobody waits for an answer to a request that its client broke off.
      const isBug = response.status >= 500 && !(error instanceof HttpError) && !request.signal.aborted;
      if (isBug) onError(error);
      return response;
    }
  };
}

/** Which paths are a route's, with its `{name}`s as groups. */
export function patternOf({ path }: Pick<Route, "path">): URLPattern {
  return new URLPattern({ pathname: path.replaceAll(/\{(\w+)\}/g, ":$1") });
}

/** The method of the route that answers a request: who serves HTTP sends no body in answer to `HEAD`. */
export function methodOf({ method }: Pick<Request, "method">): string {
  return method === "HEAD" ? "GET" : method;
}

/** Compiling a schema takes milliseconds, which a server has no need to spend before it listens. */
function lateChecker({ body }: Route): Entry["check"] {
  let check: Entry["check"] | undefined;
  return (value) => (check ??= checker(body ?? Type.Unknown(), "the body"))(value);
}

function find(
  entries: readonly Entry[],
  request: Request,
  pathname: string,
): Pick<Entry, "route" | "check"> & Pick<RouteCall, "path"> {
  const method = methodOf(request);
  const allowed: string[] = [];
  for (const { route, pattern, check } of entries) {
    const match = pattern.exec({ pathname });
    if (!match) continue;
    if (route.method === method) {
      return { route, check, path: match.pathname.groups as Record<string, string> };
    }
    allowed.push(...route.method === "GET" ? ["GET", "HEAD"] : [route.method]);
  }
  if (allowed.length === 0) {
    throw new HttpError(404, "not_found", `Cannot find ${pathname}: there is no such route.`);
  }
  const allow = allowed.join(", ");
  throw new HttpError(
    405,
    "method_not_allowed",
    `Cannot ${request.method} ${pathname}: it takes ${allow}.`,
    { allow },
  );
}
