import { connectionError, type FailedRequest, refusalError, replyError, waitOf } from "./request_errors.ts";

/** A request, and how long and how often it is tried. */
export interface SendOptions {
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
  readonly signal: AbortSignal;
  readonly fetch: typeof globalThis.fetch;
  readonly maxRetries: number;
  /** Called when an answer begins. */
  readonly progress: () => void;
}

/** Pauses before a request is repeated, in milliseconds: the first, doubled each time, the longest, the longest asked for. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 8_000;
const MAX_ASKED_PAUSE_MS = 60_000;

/** Refusals that may pass by themselves, beside failures of the server. */
const TEMPORARY = [408, 409, 429];

/**
 * Posts a request and gives its answer as soon as it begins. Repeats what failed for a while: time-outs, lost
 * connections, and what the server says is temporary.
 *
 * @throws {ModelError} what went wrong at last; the signal's reason if it is aborted.
 */
export async function sendRequest(options: SendOptions, request: FailedRequest): Promise<Response> {
  for (let attempt = 0;; attempt++) {
    const { answer, error, isTemporary, waitMs } = await tryOnce(options, request);
    if (answer) return answer;
    if (!isTemporary || attempt >= options.maxRetries) throw error;
    const backOffMs = Math.min(FIRST_PAUSE_MS * 2 ** attempt, MAX_PAUSE_MS) * (1 - Math.random() / 4);
    await pause(waitMs !== undefined && waitMs <= MAX_ASKED_PAUSE_MS ? waitMs : backOffMs, options.signal);
  }
}

type Attempt =
  | {
    readonly answer: Response;
    readonly error?: never;
    readonly isTemporary?: never;
    readonly waitMs?: never;
  }
  | {
    readonly answer?: never;
    readonly error: Error;
    readonly isTemporary: boolean;
    readonly waitMs?: number;
  };

async function tryOnce(options: SendOptions, request: FailedRequest): Promise<Attempt> {
  const { url, headers, body, signal, fetch, progress } = options;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), request.timeoutMs);
  let answer: Response;
  try {
    answer = await fetch(url, {
      method: "POST",
      headers,
      body,
      signal: AbortSignal.any([signal, late.signal]),
    });
  } catch (error) {
    signal.throwIfAborted();
    const state = `no answer began within ${request.timeoutMs / 1000} s`;
    return {
      error: late.signal.aborted
        ? replyError("unreachable", request.host, state)
        : connectionError(error, request),
      isTemporary: true,
    };
  } finally {
    clearTimeout(timer);
  }
  progress();
  if (answer.ok) return { answer };
  const { status } = answer;
  const told = answer.headers.get("x-should-retry");
  return {
    error: refusalError(
      { status, headers: answer.headers, said: await answer.text().catch(() => "") },
      request,
    ),
    isTemporary: told === "true" || (told !== "false" && (status >= 500 || TEMPORARY.includes(status))),
    ...waitOf(answer.headers),
  };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const wake = () => resolve();
  signal.addEventListener("abort", wake);
  await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", wake);
  signal.throwIfAborted();
}
