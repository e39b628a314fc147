import type { IdempotencyKey, IdempotencyKeys } from "@tare/store";
import { HttpError } from "./http_error.ts";
import type { Call, Route } from "./route.ts";

/**
 * What is kept for a key: the response itself, the reference by which its route can give it again, or that nobody
 * knows what the first request did.
 */
type Kept =
  | {
    readonly kind: "response";
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  }
  | { readonly kind: "reference"; readonly reference: string }
  | { readonly kind: "interrupted" };

/** Headers that a kept response gets back. */
const KEPT_HEADERS = ["content-type", "location"];

/**
 * Answers a request so that it has its effect once, however often it is sent with this key and body. A request that
 * failed counts as not sent. The key of an answer that can't be given again, a stream without a reference, is given up.
 *
 * @throws {HttpError} 422 if the key came with another body; 409 if a request with it is being worked on, or was when
 * the server stopped; and whatever the route throws.
 */
export async function answerOnce(
  route: Route,
  call: Call,
  options: { readonly keys: IdempotencyKeys; readonly key: IdempotencyKey; readonly bodyHash: string },
): Promise<Response> {
  const { keys, key, bodyHash } = options;
  const claim = keys.claim({ ...key, bodyHash });
  switch (claim.state) {
    case "new":
      return await act(route, call, { keys, key });
    case "done":
      return await replay(route, call, claim.response as Kept);
    case "interrupted": {
      const kept: Kept = { kind: "interrupted" };
      keys.complete(key, { response: kept });
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
  call: Call,
  { keys, key }: { readonly keys: IdempotencyKeys; readonly key: IdempotencyKey },
): Promise<Response> {
  let session: { readonly sessionId?: string } = {};
  let isKept = false;
  const complete = (response: Kept) => {
    keys.complete(key, { response, ...session });
    isKept = true;
  };
  try {
    const response = await route.answer({
      ...call,
      keep({ sessionId, reference }) {
        session = { sessionId };
        if (reference !== undefined) complete({ kind: "reference", reference });
      },
    });
    if (isKept || !response.ok || isStream(response)) return response;
    const { status, headers } = response;
    const body = await response.text();
    const kept = KEPT_HEADERS.flatMap((name) => headers.has(name) ? [[name, headers.get(name)]] : []);
    complete({ kind: "response", status, headers: Object.fromEntries(kept), body });
    return new Response(body === "" ? null : body, { status, headers });
  } finally {
    if (!isKept) keys.release(key);
  }
}

async function replay(route: Route, call: Call, kept: Kept): Promise<Response> {
  switch (kept.kind) {
    case "response": {
      const { status, headers, body } = kept;
      return marked(new Response(body === "" ? null : body, { status, headers }));
    }
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
