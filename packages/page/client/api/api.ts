/** An error that the server told, or that it couldn't be reached: then the status is 0. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

const TOKEN = "tare.token";

/** Told when the server wants a token, or another one than it was given. */
export const gate: { locked: () => void } = { locked() {} };

/** Keeps the server's token in this browser, for this server; without one it is forgotten. */
export function keepToken(token: string | undefined): void {
  if (token === undefined) localStorage.removeItem(TOKEN);
  else localStorage.setItem(TOKEN, token);
}

/** Whether a token is kept. */
export function hasToken(): boolean {
  return localStorage.getItem(TOKEN) !== null;
}

/** What a request takes beside its path. */
export interface Asking {
  readonly method?: "GET" | "POST" | "DELETE";
  /** Sent as JSON. */
  readonly body?: unknown;
  /** The server acts once on requests with the same key. */
  readonly key?: string;
  readonly signal?: AbortSignal;
}

/** Sends a request. @throws {ApiError} if the answer isn't a success, or there is none. */
export async function ask(path: string, { method, body, key, signal }: Asking = {}): Promise<Response> {
  const token = localStorage.getItem(TOKEN);
  const headers = new Headers();
  // A header can't hold every text; what it can't hold is no token of the server.
  if (token !== null) headers.set("authorization", `Bearer ${encodeToken(token)}`);
  if (body !== undefined) headers.set("content-type", "application/json");
  if (key !== undefined) headers.set("idempotency-key", key);
  let response: Response;
  try {
    response = await fetch(path, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(0, "Cannot reach the server: is it running?", { cause });
  }
  if (response.ok) return response;
  if (response.status === 401) gate.locked();
  throw new ApiError(response.status, await toldBy(response));
}

/** Sends a request whose answer is JSON. @throws as {@linkcode ask} does. */
export async function askJson<T>(path: string, asking?: Asking): Promise<T> {
  return await (await ask(path, asking)).json();
}

/** A name for a request that may be sent again. Pages of hosts without TLS have no `randomUUID`. */
export function requestKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

function encodeToken(token: string): string {
  return token.replaceAll(/[^\x21-\x7e]/g, "?");
}

async function toldBy(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return String(error.message);
  } catch {
    return `The server answered ${response.status}: ${text.slice(0, 200)}`;
  }
}

/** An event of a session with its number. */
export interface Numbered<Event> {
  readonly number: number;
  readonly event: Event;
}

/**
 * Reads server-sent events to their end, as many at a time as have arrived. The time is linear in their length, however
 * they are cut.
 *
 * @throws {ApiError} if the server tells of an error, or the connection breaks.
 */
export async function* readEvents<Event>(
  path: string,
  signal: AbortSignal,
): AsyncGenerator<readonly Numbered<Event>[]> {
  const { body } = await ask(path, { signal });
  if (!body) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = eventParser<Event>();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = parser(value);
      if (events.length > 0) yield events;
    }
  } catch (cause) {
    if (signal.aborted || cause instanceof ApiError) throw cause;
    throw new ApiError(0, "The connection to the server broke.", { cause });
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Makes a function that takes a piece of a stream and gives the events that are whole with it. */
export function eventParser<Event>(): (piece: string) => readonly Numbered<Event>[] {
  let pending = "";
  let fields: Record<string, string> = {};
  return (piece) => {
    const events: Numbered<Event>[] = [];
    let from = 0;
    for (let at = piece.indexOf("\n"); at >= 0; at = piece.indexOf("\n", from)) {
      const line = pending + piece.slice(from, at);
      pending = "";
      from = at + 1;
      if (line !== "") {
        const colon = line.indexOf(": ");
        fields[line.slice(0, colon)] = line.slice(colon + 2);
        continue;
      }
      const { id, event, data } = fields;
      fields = {};
      if (data === undefined) continue;
      if (event === "error") {
        const { error } = JSON.parse(data);
        throw new ApiError(error.status, error.message);
      }
      events.push({ number: Number(id), event: JSON.parse(data) });
    }
    pending += piece.slice(from);
    return events;
  };
}
