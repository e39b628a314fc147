import type { JsonSchema } from "@tare/messages";

/** One way in which a route answers. */
export interface RouteResponse {
  /** When it answers so, in one sentence. */
  readonly description: string;
  /**
   * Schema by media type. That of `text/event-stream` is the schema of each event's `data`, read as JSON, that of
   * `application/x-ndjson` of each line. Absent means that there is no body.
   */
  readonly content?: Readonly<Record<string, JsonSchema>>;
}

/** A parameter beside those in the path. */
export interface RouteParameter {
  /** Its name. */
  readonly name: string;
  /** Where it stands. */
  readonly in: "query" | "header";
  /** What it says, in one sentence. */
  readonly description: string;
  /** Schema of its text. */
  readonly schema: JsonSchema;
}

/** A request that has found its route: checked and read. */
export interface Call<Body = unknown> {
  /** The request. If the route declares a body, then that has been read. */
  readonly request: Request;
  /** The path's parameters, by name. */
  readonly path: Readonly<Record<string, string>>;
  /** The body, valid against the route's schema; text if it is `lines`; `undefined` if the route declares none. */
  readonly body: Body;
  /**
   * For requests with an `Idempotency-Key`: says to which session the answer belongs, with which it is forgotten. An
   * answer that is an event stream can be given again only if it also brings a `reference` for
   * {@linkcode Route.replay}, as soon as the request has had its effect; answers in JSON are kept as they are.
   */
  readonly keep: (kept: { readonly sessionId: string; readonly reference?: string }) => void;
}

/** How a route tells its errors. */
export interface RouteErrors {
  /** Schema of their JSON bodies. */
  readonly schema: JsonSchema;
  /** The answer that tells of whatever was thrown, `HttpError` or not. */
  readonly respond: (error: unknown) => Response;
}

/** One route as data: it is dispatched, validated and documented by the same description. */
export interface Route<Body = unknown> {
  /** HTTP method. */
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
  readonly body?: JsonSchema;
  /** True if the body is `application/x-ndjson`: the route gets it as text and checks it by itself. Default: false. */
  readonly lines?: boolean;
  /** How it answers, by status; `default` for any other. What any route may answer (401, 500, …) is added in the document. */
  readonly responses: { readonly [status: number]: RouteResponse; readonly default?: RouteResponse };
  /** How it tells what goes wrong once the request has found it. Default: as `errorResponse` does. */
  readonly errors?: RouteErrors;
  /** Answers. @throws {HttpError} what the client may read. */
  answer(call: Call<Body>): Promise<Response> | Response;
  /** Gives an earlier answer again, for an `Idempotency-Key`, from what {@linkcode Call.keep} was told. */
  replay?(call: Call<Body>, reference: string): Promise<Response> | Response;
}
