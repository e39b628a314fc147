import { ModelError, type ModelErrorCode, type TurnEnd } from "@tare/loop";
import { ApiError, errorBody } from "@tare/wire";
import { Type } from "typebox";
import { errorResponse, errorResponses, toHttpError } from "../http/http_error.ts";
import type { RouteErrors } from "../http/route.ts";
import { closed } from "../http/schema.ts";

/** An error in OpenAI's shape. */
export const API_ERROR = closed(
  {
    error: closed({
      message: Type.String(),
      type: Type.Enum(["invalid_request_error", "requests", "server_error"]),
      param: Type.Union([Type.String(), Type.Null()]),
      code: Type.String(),
    }),
  },
  "OpenaiError",
  {
    error: {
      message: "Cannot answer: n is not supported: the agent gives one answer.",
      type: "invalid_request_error",
      param: "n",
      code: "unsupported_value",
    },
  },
);

/** How the routes that OpenAI clients call tell their errors. */
export const API_ERRORS: RouteErrors = {
  schema: API_ERROR,
  respond: (error) => toApiError(error).toResponse(),
};

/** What can go wrong with a turn that a request starts, by status, beside what can with any request. */
export const TURN_ERRORS = errorResponses({
  404: "There is no such model, or what the request refers to is gone.",
  429: "As many turns run as the server allows, or the provider limits the rate of requests.",
  499: "The turn was cancelled.",
  502: "The provider failed.",
  504: "Nothing moved for too long.",
  507: "The server has no room for another session.",
}, API_ERROR);

/** How errors at a path are told that isn't ours: as clients of that path expect it. */
export function respondAt(pathname: string): RouteErrors["respond"] {
  if (/^\/v1\/messages(\/|$)/.test(pathname)) {
    return (error) => {
      const { status, message, headers } = toHttpError(error);
      return Response.json(errorBody(status, message), { status, headers: { ...headers } });
    };
  }
  return pathname.startsWith("/v1/") ? API_ERRORS.respond : errorResponse;
}

/** An error in OpenAI's shape, as far as clients may read it. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { status, message, code, headers } = toHttpError(error);
  return new ApiError(status, message, { code, headers, ...paramOf(message) });
}

/** The parameter that a sentence about an invalid body or query blames first. */
function paramOf(message: string): { readonly param?: string } {
  const param = /^Cannot use the body: the body must have required property '(\w+)'/.exec(message)?.[1] ??
    /^Cannot use the (?:body|query): ([\w.]+) must /.exec(message)?.[1];
  return param === undefined ? {} : { param: param.replaceAll(/\.(\d+)/g, "[$1]") };
}

/**
 * A turn that ended without an answer. The provider's own faults are 502, whatever its status was: a key that it
 * refused isn't the client's key. A setting of the client's that can't be sent, or that the provider refuses, is the
 * client's fault. A cancelled turn is 499, which no client sends again by itself.
 *
 * @param error What was thrown, if the turn ended by an error.
 */
export function turnError(end: TurnEnd, error?: unknown): ApiError {
  const { retryAfterMs, param } = error instanceof ModelError ? error : {};
  const message = end.message ?? "The turn ended without an answer.";
  if (param !== undefined) return new ApiError(400, message, { code: "unsupported_value", param });
  const { status, code } = kindOf(end);
  const seconds = status === 429 && retryAfterMs !== undefined ? Math.ceil(retryAfterMs / 1000) : undefined;
  return new ApiError(status, message, {
    code,
    ...(seconds !== undefined && { headers: { "retry-after": String(seconds) } }),
  });
}

interface ErrorKind {
  readonly status: number;
  readonly code: string;
}

function kindOf({ reason, code }: TurnEnd): ErrorKind {
  switch (reason) {
    case "cancelled":
      return { status: 499, code: "cancelled" };
    case "stalled":
      return { status: 504, code: "stalled" };
    case "model_error":
      return providerError(code);
    default:
      return { status: 500, code: "internal_error" };
  }
}

function providerError(code: ModelErrorCode = "provider_error"): ErrorKind {
  if (code === "rate_limited") return { status: 429, code: "rate_limit_exceeded" };
  if (code === "prompt_too_long") return { status: 400, code: "context_length_exceeded" };
  return { status: 502, code };
}
