import type { Store } from "@tare/conversation";
import { readPath } from "@tare/gateway";
import { Type } from "typebox";
import { errorResponse, HttpError } from "./http_error.ts";
import { answerOnce, idempotencyKey, toResponse } from "./idempotency.ts";
import { parseRequestBody, readRequestBytes } from "./read_request_body.ts";
import { textReader } from "./read_texts.ts";
import type { Method, Route, RouteCall, RouteErrors } from "./route.ts";
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
  /**
   * Answers in place of the refusal of a request that no route takes; `allowed` are the methods that routes of its path
   * take, if there are any. Nothing lets it be refused. Default: all are.
   */
  readonly otherwise?: (
    request: Request,
    path: readonly string[],
    allowed: readonly string[],
  ) => Promise<Response> | undefined;
}

type ReadTexts = ReturnType<typeof textReader>;

interface Entry {
  readonly route: Route;
  readonly parts: readonly Part[];
  readonly query: ReadTexts;
  readonly headers: ReadTexts;
  readonly check: (body: unknown) => string | undefined;
}

/** A part of a route's path: a word, or the name of a parameter. */
interface Part {
  readonly word?: string;
  readonly name?: string;
}

/**
 * Makes a function that finds the route of a request, reads and validates what it brings, and lets it answer. The path is
 * decoded here, once: parts that its client has encoded are the same as others. The function never rejects: what goes
 * wrong is an answer too.
 */
export function dispatcher(
  routes: readonly Route[],
  { maxBodyBytes: maxBytes, store, respondAt, onError, otherwise }: DispatchOptions,
): (request: Request) => Promise<Response> {
  const entries = routes.map((route): Entry => ({
    route,
    parts: partsOf(route.path),
    query: textReader(route.query ?? {}, "the query"),
    headers: textReader(route.headers ?? {}, "the headers"),
    check: lateChecker(route),
  }));
  return async (request) => {
    const url = new URL(request.url);
    const { pathname } = url;
    let respond = respondAt(pathname);
    try {
      const parts = readPath(pathname);
      if (!parts) {
        const why = "what stands behind a % in it isn't UTF-8";
        throw new HttpError(400, "invalid_request", `Cannot find ${pathname}: ${why}.`);
      }
      const fitting = entries.flatMap((entry) => {
        const path = match(entry.parts, parts);
        return path ? [{ ...entry, path }] : [];
      });
      const found = fitting.find(({ route }) => route.method === methodOf(request));
      if (!found) {
        const allowed = fitting.flatMap(({ route: { method } }) =>
          method === "GET" ? ["GET", "HEAD"] : method
        );
        const answered = await otherwise?.(request, parts, allowed);
        if (answered) return answered;
        throw noRoute(request, pathname, allowed);
      }
      const { route, path, check } = found;
      const { other, body, lines } = route;
      respond = route.errors?.respond ?? errorResponse;
      const readsBody = body !== undefined || lines !== undefined;
      const bytes = readsBody ? await readRequestBytes(request, { maxBytes, other }) : new Uint8Array();
      if (other && (!bytes || other.isIts(bytes))) return await other.answer(request, bytes);
      const call: RouteCall = {
        request,
        path,
        query: found.query((name) => url.searchParams.get(name)),
        headers: found.headers((name) => request.headers.get(name)),
        body: readsBody
          ? parseRequestBody(request, { bytes, maxBytes, check, lines: lines !== undefined })
          : undefined,
        keep: () => [],
      };
      const key = idempotencyKey(route, call);
      if (key) return await answerOnce(route, call, { store, key, bytes: bytes ?? new Uint8Array() });
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

/** Compiling a schema takes milliseconds, which a server has no need to spend before it listens. */
function lateChecker({ body }: Route): Entry["check"] {
  let check: Entry["check"] | undefined;
  return (value) => (check ??= checker(body ?? Type.Unknown(), "the body"))(value);
}

function noRoute({ method }: Request, pathname: string, allowed: readonly string[]): HttpError {
  if (allowed.length === 0) {
    return new HttpError(404, "not_found", `Cannot find ${pathname}: there is no such route.`);
  }
  const allow = allowed.join(", ");
  const message = `Cannot ${method} ${pathname}: it takes ${allow}.`;
  return new HttpError(405, "method_not_allowed", message, { allow });
}
