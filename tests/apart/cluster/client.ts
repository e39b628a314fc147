import { jsonPost } from "../../crash/json_post.ts";

/** Longest time that a client keeps trying, or waits for a turn's end, in milliseconds: no fault lasts that long. */
export const PATIENCE_MS = 60_000;

/** Longest time that an answer may take to begin, in milliseconds; then the client gives up and sends again. */
const BEGIN_MS = 30_000;

/** Pause before a request is sent again, in milliseconds. */
const RETRY_MS = 100;

/** An answer that isn't a stream. */
export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any
  readonly body: any;
}

/** Waits. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The same, for who awaits it only later: it may fail before. */
export function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Calls `attempt` until it gives something. @throws {Error} with what `what` says then if that takes too long. */
export async function until<T>(
  what: string | (() => string),
  attempt: () => Promise<T | undefined>,
  withinMs: number = PATIENCE_MS,
): Promise<T> {
  const start = performance.now();
  for (;;) {
    const found = await attempt();
    if (found !== undefined) return found;
    const waitedMs = performance.now() - start;
    if (waitedMs >= withinMs) {
      throw new Error(
        `${typeof what === "string" ? what : what()}: nothing after ${Math.round(waitedMs)} ms`,
      );
    }
    await pause(RETRY_MS);
  }
}

/** Whether an error says that a connection broke, which tells nothing of what became of the request. */
export function isBroken(error: unknown): boolean {
  return error instanceof TypeError || error instanceof DOMException;
}

/** The owner's key of all servers: it makes rules and answers questions. */
export const OWNER_KEY = `tare_${"o".repeat(43)}`;

/** Sends a request; whoever reads the answer ends it by `signal`, if at all. @throws {TypeError} if it breaks off. */
export async function send(url: string, init: RequestInit = {}, signal?: AbortSignal): Promise<Response> {
  const controller = new AbortController();
  const end = () => controller.abort();
  signal?.addEventListener("abort", end);
  const timer = setTimeout(end, BEGIN_MS);
  try {
    const headers = new Headers(init.headers);
    headers.set("x-tare-key", OWNER_KEY);
    return await fetch(url, { ...init, headers, signal: controller.signal });
  } finally {
    clearTimeout(timer);
  }
}

/** Posts; nothing if nobody knows what became of it, or it is to be tried again. */
export function post(url: string, body: unknown, key: string): Promise<Response | undefined> {
  return tell(url, jsonPost(body), key);
}

/** Sends what has an effect; nothing if nobody knows what became of it, or it is to be tried again. */
async function tell(url: string, init: RequestInit, key: string): Promise<Response | undefined> {
  const headers = new Headers(init.headers);
  headers.set("idempotency-key", key);
  try {
    const response = await send(url, { ...init, headers });
    if (response.status < 500 && response.status !== 429) return response;
    await response.body?.cancel();
  } catch (error) {
    if (!isBroken(error)) throw error;
  }
  return undefined;
}

/** Posts until there is an answer for sure, however often it has to be sent. A conflict that passes is waited for. */
export function postOnce(url: string, body: unknown, passing?: readonly string[]): Promise<Answer> {
  return tellOnce(url, jsonPost(body), passing);
}

/** The same for any request that has an effect. */
export async function tellOnce(
  url: string,
  init: RequestInit,
  passing: readonly string[] = [],
): Promise<Answer> {
  const key = crypto.randomUUID();
  return await until(`${init.method} ${url}`, async () => {
    const response = await tell(url, init, key);
    const answer = response && await json(response);
    return answer?.status === 409 && passing.includes(answer.body.error.code) ? undefined : answer;
  });
}

/** Reads until there is an answer. */
export function get(url: string): Promise<Answer> {
  return until(`GET ${url}`, async () => {
    try {
      const response = await send(url);
      if (response.status < 500) return await json(response);
      await response.body?.cancel();
    } catch (error) {
      if (!isBroken(error)) throw error;
    }
    return undefined;
  });
}

/** The answer; nothing if it broke off. */
async function json(response: Response): Promise<Answer | undefined> {
  try {
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  } catch (error) {
    if (isBroken(error)) return undefined;
    throw error;
  }
}
