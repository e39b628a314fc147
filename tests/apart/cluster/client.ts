import { jsonPost } from "../../crash/json_post.ts";

/** Time limit of a client's retries and of a turn, in milliseconds: no fault lasts that long. */
export const PATIENCE_MS = 60_000;

/** Time limit for the beginning of an answer, in milliseconds, before the client retries. */
const BEGIN_MS = 30_000;

const RETRY_MS = 100;

export interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any
  readonly body: any;
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/**
 * Calls `attempt` until it returns something. @throws {Error} with the text of `what` if that takes too
 * long.
 */
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

/** Reports whether an error means a broken connection, after which the request's outcome is unknown. */
export function isBroken(error: unknown): boolean {
  return error instanceof TypeError || error instanceof DOMException;
}

/** Owner's key of all servers: it creates rules and answers approvals. */
export const OWNER_KEY = `tare_${"o".repeat(43)}`;

/** Sends a request. @throws {TypeError} if it breaks off. */
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

/** Posts; returns `undefined` if the outcome is unknown or a retry is needed. */
export function post(url: string, body: unknown, key: string): Promise<Response | undefined> {
  return tell(url, jsonPost(body), key);
}

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

/** Posts with retries until the outcome is certain. Transient conflicts are retried. */
export function postOnce(url: string, body: unknown, passing?: readonly string[]): Promise<Answer> {
  return tellOnce(url, jsonPost(body), passing);
}

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

async function json(response: Response): Promise<Answer | undefined> {
  try {
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  } catch (error) {
    if (isBroken(error)) return undefined;
    throw error;
  }
}
