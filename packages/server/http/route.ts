import type { StoreRecord } from "@tare/conversation";
import type { Static, TSchema } from "typebox";

/** One way in which a route answers. */
export interface RouteResponse {
  /** When it answers so, in one sentence. */
  readonly description: string;
  /**
   * Schema by media type. That of `text/event-stream` is the schema of each event's `data`, read as JSON, that of
   * `application/x-ndjson` of each line. Absent means that there is no body.
   */
  readonly content?: Readonly<Record<string, TSchema>>;
}

/** A parameter beside those in the path. */
export interface RouteParameter {
  readonly name: string;
  readonly in: "query" | "header";
  /** What it says, in one sentence. */
  readonly description: string;
  /** Schema of its text. */
  readonly schema: TSchema;
}

/** An answer in JSON, as data, so that it can be stored with the effect of its request. */
export interface JsonAnswer {
  /** Default: 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json: unknown;
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

/** A request that has found its route: checked and read. */
export interface RouteCall<Body = unknown> {
  /** The request. If the route declares a body, then that has been read. */
  readonly request: Request;
  /** The path's parameters, by name. */
  readonly path: Readonly<Record<string, string>>;
  /** The body, valid against the route's schema; text if it is `lines`; `undefined` if the route declares none. */
  readonly body: Body;
  /** Records by which the commit of the request's effect keeps its answer: none for a request without a key. */
  readonly keep: (kept: KeptAnswer) => readonly StoreRecord[];
}

/** How a route tells its errors. */
export interface RouteErrors {
  /** Schema of their JSON bodies. */
  readonly schema: TSchema;
  /** The answer that tells of whatever was thrown, `HttpError` or not. */
  readonly respond: (error: unknown) => Response;
}

type Answered = Response | JsonAnswer;

/** One route as data: it is dispatched, validated and documented by the same description. */
export interface Route<Schema extends TSchema = TSchema> {
  readonly method: "GET" | "POST" | "DELETE";
  /** Template of the path, such as `/v1/sessions/{id}`. */
  readonly path: string;
  /** Name of the operation in the OpenAPI document, in lower camel case. */
  readonly operationId: string;
  /** What it does, in one sentence. */
  readonly summary: string;
  /** True if it answers without a token. Default: false. */
  readonly isPublic?: boolean;
  /** Parameters in query and headers. Default: none. */
  readonly parameters?: readonly RouteParameter[];
  /** Schema of the JSON body, or of each line of one that is `lines`. Default: a body is not looked at. */
  readonly body?: Schema;
  /** True if the body is `application/x-ndjson`: the route gets it as text and checks it by itself. Default: false. */
  readonly lines?: boolean;
  /** How it answers, by status; `default` for any other. What any route may answer (401, 500, …) is added in the document. */
  readonly responses: { readonly [status: number]: RouteResponse; readonly default?: RouteResponse };
  /** How it tells what goes wrong once the request has found it. Default: as `errorResponse` does. */
  readonly errors?: RouteErrors;
  /** Answers. @throws {HttpError} what the client may read. */
  answer(call: RouteCall<Static<Schema>>): Promise<Answered> | Answered;
  /** Gives an earlier answer again, for an `Idempotency-Key`, from what {@linkcode RouteCall.keep} was told. */
  replay?(call: RouteCall, reference: string): Promise<Response> | Response;
}

/** A route whose body has the type of its schema. */
export function route<Schema extends TSchema>(description: Route<Schema>): Route {
  // Only `body` that is valid against the schema reaches answer().
  return description as Route;
}
