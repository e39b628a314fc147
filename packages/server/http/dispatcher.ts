import { schemaChecker } from "@tare/messages/arguments";
import type { IdempotencyKeys } from "@tare/store";
import { answerOnce } from "./answer_once.ts";
import { errorResponse, HttpError } from "./http_error.ts";
import { readBody } from "./read_body.ts";
import { type Check, parseJson } from "./read_json.ts";
import { readLines } from "./read_lines.ts";
import type { Call, Route } from "./route.ts";

/** What requests are dispatched with. */
export interface DispatchOptions {
  /** Largest request body in bytes. */
  readonly maxBodyBytes: number;
  /** Answers to requests with an `Idempotency-Key`. */
  readonly idempotencyKeys: IdempotencyKeys;
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

interface Entry {
  readonly route: Route;
  readonly pattern: URLPattern;
  readonly check: Check;
}

const NO_BODY = new Uint8Array();

/**
 * Makes a function that finds the route of a request, reads and validates what it brings, and lets it answer. The
 * function never rejects: what goes wrong is an answer too.
 */
export function dispatcher(
  routes: readonly Route[],
  options: DispatchOptions,
): (request: Request) => Promise<Response> {
  const entries = routes.map((route): Entry => ({
    route,
    pattern: new URLPattern({ pathname: route.path.replaceAll(/\{(\w+)\}/g, ":$1") }),
    check: lateChecker(route),
  }));
  return async (request) => {
    let respond = errorResponse;
    try {
      const { route, check, path } = find(entries, request);
      respond = route.errors?.respond ?? errorResponse;
      return await answer(route, request, { ...options, check, path });
    } catch (error) {
      const response = respond(error);
      if (response.status >= 500 && !(error instanceof HttpError)) options.onError(error);
      return response;
    }
  };
}

/** Compiling a schema takes milliseconds, which a server has no need to spend before it listens. */
function lateChecker({ body }: Route): Check {
  let check: Check | undefined;
  return (value) => (check ??= schemaChecker(body ?? {}, "the body"))(value);
}

function find(
  entries: readonly Entry[],
  request: Request,
): Pick<Entry, "route" | "check"> & Pick<Call, "path"> {
  const { pathname } = new URL(request.url);
  const allowed: string[] = [];
  for (const { route, pattern, check } of entries) {
    const match = pattern.exec({ pathname });
    if (!match) continue;
    if (route.method === request.method) {
      return { route, check, path: match.pathname.groups as Record<string, string> };
    }
    allowed.push(route.method);
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

async function answer(
  route: Route,
  request: Request,
  options: DispatchOptions & Pick<Entry, "check"> & Pick<Call, "path">,
): Promise<Response> {
  const { idempotencyKeys: keys, maxBodyBytes: maxBytes, check, path } = options;
  const sent = route.body && !route.lines
    ? await readBody(request, { maxBytes, type: "application/json" })
    : undefined;
  const key = idempotencyKey(route, request);
  const { value, bytes } = sent
    ? { value: parseJson(sent, check), bytes: sent }
    : route.lines
    ? await readLines(request, maxBytes)
    : { value: undefined, bytes: NO_BODY };
  const call: Call = { request, path, body: value, keep() {} };
  if (key === undefined) return await route.answer(call);
  const scope = `${request.method} ${new URL(request.url).pathname}`;
  return await answerOnce(route, call, { keys, key: { scope, key }, bodyHash: await hashOf(bytes) });
}

/** The key of a request that acts; reading again has no effect anyway. */
function idempotencyKey({ method }: Route, { headers }: Request): string | undefined {
  const key = method === "GET" ? null : headers.get("idempotency-key");
  if (key === null) return undefined;
  if (/^[\x20-\x7e]{1,255}$/.test(key)) return key;
  throw new HttpError(
    400,
    "invalid_request",
    `Cannot use the Idempotency-Key: it has ${key.length} characters, and 1 to 255 of printable ASCII are wanted.`,
  );
}

async function hashOf(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}
