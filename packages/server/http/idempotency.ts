import { nameOf, type Store, StoreError } from "@tare/conversation";
import { type Static, Type } from "typebox";
import { HttpError } from "./http_error.ts";
import type { JsonAnswer, Route, RouteCall } from "./route.ts";
import { COUNT, storedReader, tagged } from "./schema.ts";

/**
 * What is kept for a key: the response itself, the reference by which its route can give it again, or that nobody
 * knows what the first request did.
 */
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
    const by = nameOf(asker);
    return { scope: `${by === undefined ? "" : `${by} `}${method} ${place}`, key };
  }
  throw new HttpError(
    400,
    "invalid_request",
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
export async function answerOnce(
  route: Route,
  call: RouteCall,
  { store, key: sent, bytes, answer }: {
    readonly store: Store;
    /** As the request has sent it. */
    readonly key: string;
    /** The request's body. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** Lets the route answer. */
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
