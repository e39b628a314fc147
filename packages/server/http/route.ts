import type { Caller } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import type { Static, TObject, TProperties, TSchema } from "typebox";

/** `HEAD` is answered as `GET`. */
export type Method = "GET" | "POST" | "DELETE";

export interface RouteResponse {
  readonly description: string;
  /** Schema by media type; of streams, of each event's `data` or line. Absent: no body. */
  readonly content?: Readonly<Record<string, TSchema>>;
}

export function json<S extends TSchema>(
  description: string,
  schema: S,
): { readonly description: string; readonly content: { readonly "application/json": S } } {
  return { description, content: { "application/json": schema } };
}

/** Responses by status; `default` for others. A string describes a response without a body, or an error. */
export type RouteResponses = {
  readonly [status: number]: RouteResponse | string;
  readonly default?: RouteResponse;
};

/** A JSON answer, which can be stored with the request's effect. */
export interface JsonAnswer<Json = unknown> {
  /** Default: 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json: Json;
}

/** Stored answer of an `Idempotency-Key`. */
export interface StoredAnswer {
  /** The session that it is deleted with. */
  readonly sessionId?: string;
  /** Default: stored when it is returned. */
  readonly answer?: JsonAnswer;
  /** From which {@linkcode Route.replay} repeats an event stream. Default: not repeated. */
  readonly reference?: string;
}

/** The client of a request. */
export interface RequestClient {
  /** Default: the owner. */
  readonly caller?: Caller;
  /** Aborted on disconnect before the answer; later its body is cancelled. Default: not reported. */
  readonly signal?: AbortSignal | undefined;
}

export interface RouteCall<
  Path = Readonly<Record<string, string>>,
  Query = Readonly<Record<string, unknown>>,
  Headers = Readonly<Record<string, unknown>>,
  Body = unknown,
> {
  /** A body that the route declares is already read. */
  readonly request: Request;
  /** Aborted on disconnect before the answer; later its body is cancelled. */
  readonly signal: AbortSignal;
  readonly caller: Caller;
  readonly path: Path;
  /** Validated, with defaults. */
  readonly query: Query;
  /** Validated, with defaults. */
  readonly headers: Headers;
  /** Validated; text for `lines`; `undefined` if the route declares none. */
  readonly body: Body;
  /** Returns the records that store the answer with the request's effect; none without a key. */
  readonly keep: (answer: StoredAnswer) => readonly StoreRecord[];
}

export interface RouteErrors {
  readonly schema: TSchema;
  readonly respond: (error: unknown) => Response;
}

/** Another handler for a route's requests. */
export interface OtherAnswerer {
  readonly maxBodyBytes: number;
  /** Returns whether a request is its own, by the start of its body; `undefined` if undecided. */
  readonly isIts: (body: Uint8Array<ArrayBuffer>) => boolean | undefined;
  /** Never rejects. Absent bytes: unknown encoding, unread body. */
  readonly answer: (
    request: Request,
    from: Pick<RouteCall, "caller" | "signal"> & { readonly body?: Uint8Array<ArrayBuffer> | undefined },
  ) => Promise<Response>;
}

export type Answered<Json = unknown> = Response | JsonAnswer<Json>;

interface Described<M extends Method, P extends string> {
  readonly method: M;
  readonly path: P;
  readonly operationId: string;
  readonly summary: string;
  /** Whether no key is required. Default: false. */
  readonly isPublic?: boolean;
  /** Required role: `owner`, `approve`, `metrics`, or any `key` (sessions: only their own). Default: guests too. */
  readonly who?: "owner" | "approve" | "metrics" | "key";
  /** Whether the answer must not be stored, even for an `Idempotency-Key`. Default: false. */
  readonly isSentOnce?: boolean;
  /** Whether effect and answer commit together, so that an unanswered key may be used again. Default: false. */
  readonly isAtomic?: boolean;
  /** Whether it starts work of the agent, which a key's routes or budget may exclude. Default: false. */
  readonly begins?: boolean;
  /** Schema of each line of an `application/x-ndjson` body, which the route checks itself. */
  readonly lines?: TSchema;
  /** Error format after routing. Default: `errorResponse`. */
  readonly errors?: RouteErrors;
}

/** A route as data, for dispatch, validation, documentation and the client's types. */
export interface Route<
  M extends Method = Method,
  P extends string = string,
  Input = unknown,
  Output = unknown,
> extends Described<M, P> {
  /** Query parameters, optional or with a default. Default: none. */
  readonly query?: TProperties;
  /** Headers, likewise. */
  readonly headers?: TProperties;
  /** JSON body. Default: ignored. */
  readonly body?: TSchema;
  /** Common ones (401, 500, …) are added in the document. */
  readonly responses: RouteResponses;
  /** Whether a provider answers requests that aren't the agent's. Default: false. */
  readonly isShared?: boolean;
  /** Handler that may answer requests with a body instead. Default: none. */
  readonly other?: OtherAnswerer;
  /** @throws {HttpError} for the client. */
  answer(call: RouteCall): Promise<Answered> | Answered;
  /** Replaces an error of `answer()`. Default: unchanged. */
  explain?(error: unknown, call: RouteCall): Promise<Error | undefined>;
  /** `reference` is that of {@linkcode RouteCall.keep}. */
  replay?(call: RouteCall, reference: string): Promise<Response> | Response;
  /** For the compiler; never set. */
  readonly types?: { readonly input: Input; readonly output: Output };
}

export type PathOf<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? Readonly<Record<Name, string>> & PathOf<Rest>
  : unknown;

export type Reads<T> = T extends readonly (infer Item)[] ? readonly Reads<Item>[]
  : T extends object ? { readonly [Name in keyof T]: Reads<T[Name]> }
  : T;

/** Statuses with JSON other than an error. */
type SuccessStatus = 200 | 201 | 202 | 503;

type ContentOf<Responses, Media extends string, Status = SuccessStatus> = Status extends keyof Responses
  ? Responses[Status] extends { readonly content: Readonly<Record<Media, infer Schema extends TSchema>> }
    ? Reads<Static<Schema>>
  : never
  : never;

type JsonOf<Responses> = ContentOf<Responses, "application/json">;

export interface RouteInput<Path, Query, Body> {
  readonly path: Path;
  readonly query: Query;
  readonly body: Body;
}

export interface RouteOutput<Json, Event> {
  readonly json: Json;
  readonly event: Event;
}

/** Returns a route with the types of its schemas; invalid requests don't reach `answer()`. */
export function route<
  const M extends Method,
  const P extends string,
  const Responses extends RouteResponses,
  Query extends TProperties = Record<never, never>,
  Headers extends TProperties = Record<never, never>,
  Body extends TSchema = TSchema,
>(
  description: Described<M, P> & {
    readonly query?: Query;
    readonly headers?: Headers;
    readonly body?: Body;
    readonly responses: Responses;
    answer(
      call: RouteCall<
        PathOf<P>,
        Reads<Static<TObject<Query>>>,
        Reads<Static<TObject<Headers>>>,
        Static<Body>
      >,
    ): Promise<Answered<JsonOf<Responses>>> | Answered<JsonOf<Responses>>;
    replay?(call: RouteCall<PathOf<P>>, reference: string): Promise<Response> | Response;
  },
): Route<
  M,
  P,
  RouteInput<PathOf<P>, Partial<Reads<Static<TObject<Query>>>>, Reads<Static<Body>>>,
  RouteOutput<JsonOf<Responses>, ContentOf<Responses, "text/event-stream">>
> {
  return description as unknown as Route<M, P, never, never>;
}
