import type { Asker } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import type { Static, TObject, TProperties, TSchema } from "typebox";

/** A method that routes are made for: `HEAD` is answered as `GET` is. */
export type Method = "GET" | "POST" | "DELETE";

/** One way in which a route answers. */
export interface RouteResponse {
  /** When it answers so, in one sentence. */
  readonly description: string;
  /** Schema by media type: of each event's `data` or of each line, for streams. Absent: no body. */
  readonly content?: Readonly<Record<string, TSchema>>;
}

export function json<S extends TSchema>(
  description: string,
  schema: S,
): { readonly description: string; readonly content: { readonly "application/json": S } } {
  return { description, content: { "application/json": schema } };
}

/** Responses by status; `default` for any other. A string describes a response without a body, or an error. */
export type RouteResponses = {
  readonly [status: number]: RouteResponse | string;
  readonly default?: RouteResponse;
};

/** An answer in JSON, as data, so that it can be stored with the effect of its request. */
export interface JsonAnswer<Json = unknown> {
  /** Default: 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json: Json;
}

/** What is kept of an answer for an `Idempotency-Key`. */
export interface KeptAnswer {
  /** The session with which it is forgotten. */
  readonly sessionId?: string;
  /** The answer itself, if it is known before the request has its effect. Default: it is kept once it is given. */
  readonly answer?: JsonAnswer;
  /** For an event stream: from what {@linkcode Route.replay} gives it again. Other streams can't be given again. */
  readonly reference?: string;
}

/** The client of a request. */
export interface RequestClient {
  /** Whose key it has sent. Default: the owner's. */
  readonly asker?: Asker;
  /** Aborted if it disconnects before the answer begins; later it cancels the answer's body. Default: not reported. */
  readonly signal?: AbortSignal | undefined;
}

/** A request that has found its route: checked and read. */
export interface RouteCall<
  Path = Readonly<Record<string, string>>,
  Query = Readonly<Record<string, unknown>>,
  Headers = Readonly<Record<string, unknown>>,
  Body = unknown,
> {
  /** The request. If the route declares a body, then that has been read. */
  readonly request: Request;
  /** Aborted if the client disconnects before the answer begins; later it cancels the answer's body. */
  readonly signal: AbortSignal;
  readonly asker: Asker;
  readonly path: Path;
  /** What the query says, valid against the route's schemas, defaults filled in. */
  readonly query: Query;
  /** What those headers say that the route names, likewise. */
  readonly headers: Headers;
  /** The body, valid against the route's schema; text if it is `lines`; `undefined` if the route declares none. */
  readonly body: Body;
  /** Records by which the commit of the request's effect keeps its answer: none for a request without a key. */
  readonly keep: (kept: KeptAnswer) => readonly StoreRecord[];
}

export interface RouteErrors {
  readonly schema: TSchema;
  /** The answer that tells of whatever was thrown, `HttpError` or not. */
  readonly respond: (error: unknown) => Response;
}

/** Somebody else who may answer a route's requests. */
export interface OtherAnswerer {
  /** Most bytes of a body that it takes. */
  readonly maxBodyBytes: number;
  /** Whether a request is its own, by its body or the beginning of that; nothing if that doesn't tell. */
  readonly isIts: (body: Uint8Array<ArrayBuffer>) => boolean | undefined;
  /** Answers. Absent bytes: the body is compressed in a way that isn't known here, and unread. Never rejects. */
  readonly answer: (
    request: Request,
    asked: Pick<RouteCall, "asker" | "signal"> & { readonly body?: Uint8Array<ArrayBuffer> | undefined },
  ) => Promise<Response>;
}

export type Answered<Json = unknown> = Response | JsonAnswer<Json>;

interface Described<M extends Method, P extends string> {
  readonly method: M;
  readonly path: P;
  readonly operationId: string;
  readonly summary: string;
  /** True if it answers without a key. Default: false. */
  readonly isPublic?: boolean;
  /** Who may use it: `owner`, `approve`, `metrics`, or any `key`; sessions only their own. Default: guests too. */
  readonly who?: "owner" | "approve" | "metrics" | "key";
  /** Whether its answer is told once, `Idempotency-Key` or not, because it may be kept nowhere. Default: no. */
  readonly isToldOnce?: boolean;
  /** Whether effect and answer commit together, so that an unanswered `Idempotency-Key` may run again. Default: no. */
  readonly isAtomic?: boolean;
  /** Whether it begins work of the agent's, which a key may not be for, or have no more money for. Default: no. */
  readonly begins?: boolean;
  /** Schema of each line of a body that is `application/x-ndjson`: the route gets it as text and checks it by itself. */
  readonly lines?: TSchema;
  /** How it tells what goes wrong once the request has found it. Default: as `errorResponse` does. */
  readonly errors?: RouteErrors;
}

/** A route as data, from which dispatch, validation, documentation and the client's types follow. */
export interface Route<M extends Method = Method, P extends string = string, Asked = unknown, Told = unknown>
  extends Described<M, P> {
  /** Schemas of query parameters, optional or with a default. Default: none. */
  readonly query?: TProperties;
  /** Likewise of headers. */
  readonly headers?: TProperties;
  /** Schema of the JSON body. Default: a body is not looked at. */
  readonly body?: TSchema;
  /** How it answers. What any route may answer (401, 500, …) is added in the document. */
  readonly responses: RouteResponses;
  /** Whether a provider answers what isn't the agent's. Default: no. */
  readonly isShared?: boolean;
  /** Who else may answer a request with a body, and is asked first. Default: nobody. */
  readonly other?: OtherAnswerer;
  /** Answers. @throws {HttpError} what the client may read. */
  answer(call: RouteCall): Promise<Answered> | Answered;
  /** What is thrown to the client in place of what `answer()` has thrown. Nothing: that itself. Default: nothing. */
  explain?(error: unknown, call: RouteCall): Promise<Error | undefined>;
  /** Gives an earlier answer again, for an `Idempotency-Key`, from what {@linkcode RouteCall.keep} was told. */
  replay?(call: RouteCall, reference: string): Promise<Response> | Response;
  /** For the compiler alone, and never there: what a client sends, and what it is told. */
  readonly types?: { readonly asked: Asked; readonly told: Told };
}

export type PathOf<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? Readonly<Record<Name, string>> & PathOf<Rest>
  : unknown;

/** What a schema describes, as nobody may change it. */
export type Reads<T> = T extends readonly (infer Item)[] ? readonly Reads<Item>[]
  : T extends object ? { readonly [Name in keyof T]: Reads<T[Name]> }
  : T;

/** Statuses whose JSON is more than an error. */
type Told = 200 | 201 | 202 | 503;

type ContentOf<Responses, Media extends string, Status = Told> = Status extends keyof Responses
  ? Responses[Status] extends { readonly content: Readonly<Record<Media, infer Schema extends TSchema>> }
    ? Reads<Static<Schema>>
  : never
  : never;

type JsonOf<Responses> = ContentOf<Responses, "application/json">;

/** What a client sends to a route. */
export interface Asks<Path, Query, Body> {
  readonly path: Path;
  readonly query: Query;
  readonly body: Body;
}

/** What a route tells a client: JSON, and what each event of a stream holds. */
export interface Tells<Json, Event> {
  readonly json: Json;
  readonly event: Event;
}

/** Returns a route whose types are those of its schemas; invalid requests never reach `answer()`. */
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
  Asks<PathOf<P>, Partial<Reads<Static<TObject<Query>>>>, Reads<Static<Body>>>,
  Tells<JsonOf<Responses>, ContentOf<Responses, "text/event-stream">>
> {
  // Only what is valid against the schemas reaches answer().
  return description as unknown as Route<M, P, never, never>;
}
