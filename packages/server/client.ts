/**
 * Typed client of the server's routes. It imports only types and {@linkcode API_PATH}, so that a page bundles nothing
 * else. Types inferred from values can't be published: unpublished packages import this file.
 *
 * @module
 */
import { bodyPieces, type RawEvent, SseSplitter } from "@tare/wire/internal/sse";
import type { Route } from "./http/route.ts";
import { API_PATH } from "./http/api_path.ts";
import type { ownRoutes } from "./route_table.ts";

export { API_PATH } from "./http/api_path.ts";
export type { MissesReport } from "./api/misses.ts";
export type { SessionSpend } from "./api/session_spend.ts";

type Table = ReturnType<typeof ownRoutes>[number];

export type Api = {
  readonly [R in Table as R extends Route<infer M, infer P> ? `${M} ${P}` : never]: NonNullable<R["types"]>;
};

/** JSON response of a route. */
export type ResponseOf<Name extends keyof Api> = Api[Name]["output"]["json"];

export type SpendReport = ResponseOf<"GET /spend">;

/** JSON body of a route's request. */
export type Body<Name extends keyof Api> = Api[Name]["input"]["body"];

type Part<Name extends string, T> = unknown extends T ? { readonly [N in Name]?: never }
  : Record<never, never> extends T ? { readonly [N in Name]?: T }
  : { readonly [N in Name]: T };

/** A request to a route. */
export type Asking<Name extends keyof Api> =
  & Part<"path", Api[Name]["input"]["path"]>
  & {
    readonly query?: {
      readonly [Q in keyof Api[Name]["input"]["query"]]?: Api[Name]["input"]["query"][Q] | undefined;
    };
  }
  & Part<"body", Api[Name]["input"]["body"]>
  & {
    readonly lines?: BodyInit;
    readonly key?: string;
    readonly signal?: AbortSignal;
  };

type Arguments<Name extends keyof Api> = Record<never, never> extends Asking<Name> ? [asking?: Asking<Name>]
  : [asking: Asking<Name>];

export interface Numbered<Event> {
  readonly number: number;
  readonly event: Event;
}

/** Event of a route's stream; errors are thrown. */
export type EventOf<Name extends keyof Api> = Exclude<
  Api[Name]["output"]["event"],
  { readonly error: { readonly code: string } }
>;

/** A refused request. */
export class RefusedError extends Error {
  /** HTTP status; 0 if the server can't be reached. */
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

export interface ClientOptions {
  readonly url?: string;
  /** Returns the bearer token of the next request. Default: none. */
  readonly token?: () => string | undefined;
  /** Error message if the server can't be reached. */
  readonly unreachable: string;
  /** Called with the status of a refused request, and its bearer token. */
  readonly refused?: (status: number, token: string | undefined) => void;
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** A client of the server's routes. All methods reject with a {@linkcode RefusedError} if the request fails. */
export interface Client {
  send<Name extends keyof Api>(name: Name, ...asking: Arguments<Name>): Promise<Response>;
  json<Name extends keyof Api>(name: Name, ...asking: Arguments<Name>): Promise<ResponseOf<Name>>;
  events<Name extends keyof Api>(
    name: Name,
    ...asking: Arguments<Name>
  ): Promise<AsyncGenerator<Numbered<EventOf<Name>>, void>>;
}

interface Sent {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly lines?: BodyInit;
  readonly key?: string;
  readonly signal?: AbortSignal;
}

export function client(
  { url = "", token, unreachable, refused, fetch = (request) => globalThis.fetch(request) }: ClientOptions,
): Client {
  const send = async (name: string, { path = {}, query = {}, body, lines, key, signal }: Sent = {}) => {
    const [method = "GET", template = ""] = name.split(" ");
    const headers = new Headers();
    const bearer = token?.();
    if (bearer !== undefined) headers.set("authorization", `Bearer ${bearer}`);
    // Pages of other origins can't send this content type without a preflight request.
    const sent = lines ?? (method === "POST" ? JSON.stringify(body ?? {}) : undefined);
    if (sent !== undefined) {
      headers.set("content-type", lines === undefined ? "application/json" : "application/x-ndjson");
    }
    if (key !== undefined) headers.set("idempotency-key", key);
    const at = template.replaceAll(/\{(\w+)\}/g, (_, part) => encodeURIComponent(path[part] ?? ""));
    const parameters = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(parameters.map(([part, value]) => [part, String(value)])).toString();
    let response: Response;
    try {
      response = await fetch(
        new Request(url + API_PATH + at + (search && `?${search}`), {
          method,
          headers,
          ...(sent !== undefined && { body: sent }),
          ...(signal && { signal }),
        }),
      );
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw new RefusedError(0, unreachable, { cause });
    }
    if (response.ok) return response;
    refused?.(response.status, bearer);
    throw new RefusedError(response.status, await errorText(response));
  };
  return {
    send,
    json: async (name: string, asking?: Sent) => await (await send(name, asking)).json(),
    events: async (name: string, asking?: Sent) => {
      const { body } = await send(name, asking);
      return readEvents(body, asking?.signal);
    },
  } as Client;
}

/** Returns all model calls of a session, the oldest first. */
export async function allCalls(
  api: Client,
  id: string,
): Promise<ResponseOf<"GET /sessions/{id}/calls">["calls"]> {
  const all: ResponseOf<"GET /sessions/{id}/calls">["calls"][number][] = [];
  for (;;) {
    const query = { limit: 10_000, after: all.at(-1)?.number ?? 0 };
    const { calls, hasMore } = await api.json("GET /sessions/{id}/calls", { path: { id }, query });
    all.push(...calls);
    if (!hasMore) return all;
  }
}

async function errorText(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return String(JSON.parse(text).error.message);
  } catch {
    return `The server answered ${response.status}: ${text.slice(0, 200)}`;
  }
}

/**
 * Reads server-sent events to their end.
 *
 * @throws {RefusedError} if the server reports an error, or the connection breaks.
 */
async function* readEvents<Event>(
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  signal: AbortSignal | undefined,
): AsyncGenerator<Numbered<Event>, void> {
  const splitter = new SseSplitter({ maxEventBytes: Infinity, maxStreamBytes: Infinity });
  try {
    for await (const piece of bodyPieces(body)) {
      for (const event of splitter.events(piece)) yield* readEvent<Event>(event);
    }
  } catch (cause) {
    if (signal?.aborted || cause instanceof RefusedError) throw cause;
    throw new RefusedError(0, "The connection to the server broke.", { cause });
  }
}

function readEvent<Event>({ id, name, data }: RawEvent): Numbered<Event>[] {
  if (data === undefined) return [];
  if (name !== "error") return [{ number: Number(id), event: JSON.parse(data) }];
  const { error } = JSON.parse(data);
  throw new RefusedError(error.status, error.message);
}

const MAX_PAUSE_MS = 4_000;

/** Options of {@linkcode Reconnection}. */
export interface ReconnectionOptions {
  /** Called with the first failure of an outage. */
  readonly onAway: (error: RefusedError) => unknown;
  /** Failures in a row after which it gives up. Default: 20, which is about a minute. */
  readonly maxTries?: number;
  readonly maxPauseMs?: number | undefined;
  readonly signal?: AbortSignal;
}

/** Waits, with growing pauses, for a server that can't be reached or is shutting down. */
export class Reconnection {
  readonly #options: ReconnectionOptions;
  #tries = 0;

  constructor(options: ReconnectionOptions) {
    this.#options = options;
  }

  /** Repeats the work until it succeeds. @throws its error, if waiting doesn't help or lasted too long. */
  async retry<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        const result = await work();
        this.#tries = 0;
        return result;
      } catch (error) {
        await this.#wait(error);
      }
    }
  }

  /**
   * Yields the events of a stream to its end; after an interruption from the last event, by `follow`.
   *
   * @param after Number of the last event before. Without it a stream that fails before its first event isn't
   * repeated.
   * @throws the stream's error, if waiting doesn't help or lasted too long.
   */
  async *events<Event>(
    follow: (after: number) => Promise<AsyncIterable<Numbered<Event>>>,
    { after, first }: {
      readonly after?: number | undefined;
      readonly first?: AsyncIterable<Numbered<Event>>;
    },
  ): AsyncGenerator<Numbered<Event>, void> {
    let last = after;
    for (let next = first;; next = undefined) {
      try {
        for await (const event of next ?? await follow(last ?? 0)) {
          this.#tries = 0;
          last = event.number;
          yield event;
        }
        return;
      } catch (error) {
        if (last === undefined) throw error;
        await this.#wait(error);
      }
    }
  }

  async #wait(error: unknown): Promise<void> {
    const { onAway, maxTries = 20, maxPauseMs = MAX_PAUSE_MS, signal } = this.#options;
    const isAway = error instanceof RefusedError && (error.status === 0 || error.status === 503);
    if (!isAway || signal?.aborted || this.#tries === maxTries) throw error;
    if (this.#tries === 0) await onAway(error);
    await new Promise((resolve) => setTimeout(resolve, Math.min(125 * 2 ** this.#tries++, maxPauseMs)));
    signal?.throwIfAborted();
  }
}
