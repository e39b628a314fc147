import { STATUS_TEXT } from "@std/http";
import type { JsonSchema } from "@tare/messages";
import { toHttpError } from "../http/http_error.ts";
import type { RouteErrors, RouteResponse } from "../http/route.ts";

/** What an error of the OpenAI-compatible routes says beside its status and sentence. */
export interface OpenaiErrorDetails {
  /** Name of the error for programs. */
  readonly code: string;
  /** The parameter of the request that is at fault. Default: none. */
  readonly param?: string;
  /** Further response headers. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The body of an error, in OpenAI's shape. */
export interface OpenaiErrorBody {
  /** What went wrong. */
  readonly error: {
    /** A sentence for people. */
    readonly message: string;
    /** The kind of error. */
    readonly type: "invalid_request_error" | "requests" | "server_error";
    /** The parameter at fault, if it is one. */
    readonly param: string | null;
    /** Name of the error for programs. */
    readonly code: string;
  };
}

/** JSON Schema of {@linkcode OpenaiErrorBody}. */
export const OPENAI_ERROR: JsonSchema = {
  title: "OpenaiError",
  type: "object",
  properties: {
    error: {
      type: "object",
      properties: {
        message: { type: "string" },
        type: { enum: ["invalid_request_error", "requests", "server_error"] },
        param: { type: ["string", "null"] },
        code: { type: "string" },
      },
      required: ["message", "type", "param", "code"],
      additionalProperties: false,
    },
  },
  required: ["error"],
  additionalProperties: false,
};

/** An error that clients of the OpenAI-compatible routes may read. */
export class OpenaiError extends Error {
  /** Always `OpenaiError`. */
  override readonly name = "OpenaiError";
  /** HTTP status. */
  readonly status: number;
  /** Code, parameter and headers. */
  readonly details: OpenaiErrorDetails;

  /** An error with this status and sentence. */
  constructor(status: number, message: string, details: OpenaiErrorDetails) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

/** An error as the OpenAI-compatible routes tell it, as far as clients may read it. */
export function toOpenaiError(error: unknown): OpenaiError {
  if (error instanceof OpenaiError) return error;
  const { status, message, code, headers } = toHttpError(error);
  return new OpenaiError(status, message, { code, headers, ...paramOf(message) });
}

/** The body that tells of an error. */
export function openaiErrorBody({ status, message, details }: OpenaiError): OpenaiErrorBody {
  const type = status === 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
  return { error: { message, type, param: details.param ?? null, code: details.code } };
}

/** The response that tells of any error in OpenAI's shape, for every route that an OpenAI client calls. */
export function openaiErrorResponse(error: unknown): Response {
  const told = toOpenaiError(error);
  const { status, details } = told;
  return Response.json(openaiErrorBody(told), {
    status,
    statusText: STATUS_TEXT[status as keyof typeof STATUS_TEXT] ?? "",
    headers: { ...details.headers },
  });
}

/** How the OpenAI-compatible routes tell their errors. */
export const OPENAI_ERRORS: RouteErrors = { schema: OPENAI_ERROR, respond: openaiErrorResponse };

/** Responses that tell of an error, by status: when each is given, in one sentence. */
export function openaiErrorResponses(
  descriptions: Readonly<Record<number, string>>,
): Readonly<Record<string, RouteResponse>> {
  return Object.fromEntries(
    Object.entries(descriptions).map(([status, description]) => [
      status,
      { description, content: { "application/json": OPENAI_ERROR } },
    ]),
  );
}

/** What can go wrong with a turn that a request starts, by status, beside what can with any request. */
export const TURN_ERRORS: Readonly<Record<string, RouteResponse>> = openaiErrorResponses({
  404: "There is no such model, or what the request refers to is gone.",
  429: "As many turns run as the server allows, or the provider limits the rate of requests.",
  499: "The turn was cancelled.",
  502: "The provider failed.",
  504: "Nothing moved for too long.",
  507: "The server has no room for another session.",
});

/** The parameter that a sentence about an invalid body blames first. */
function paramOf(message: string): { readonly param?: string } {
  const param = /^Cannot use the body: the body must have required property '(\w+)'/.exec(message)?.[1] ??
    /^Cannot use the body: ([\w.]+) must /.exec(message)?.[1];
  return param === undefined ? {} : { param: param.replaceAll(/\.(\d+)/g, "[$1]") };
}
