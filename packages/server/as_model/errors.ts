import { ModelError, type TurnEnd } from "@tare/loop";
import { ApiError, MESSAGES_PROTOCOL } from "@tare/wire/internal";
import { Type } from "typebox";
import { errorResponse, toHttpError } from "../http/http_error.ts";
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
export const TURN_ERRORS = {
  404: "There is no such model, or what the request refers to is gone.",
  429: "As many turns run as the server allows, or the provider limits the rate of requests.",
  499: "The turn was cancelled.",
  502: "The provider failed.",
  504: "Nothing moved for too long.",
  507: "The server has no room for another session.",
};

/** How errors at a path are reported that no route has: as clients of that path expect it. */
export function respondAt(pathname: string): RouteErrors["respond"] {
  if (/^\/v1\/messages(\/|$)/.test(pathname)) {
    return (error) => {
      const { status, message, code, headers = {} } = toHttpError(error);
      const response = MESSAGES_PROTOCOL.refuse(status, message, code);
      for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
      return response;
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
    /^Cannot use the (?:body|query): ([\w.]+) must /.exec(message)?.[1] ??
    (message.startsWith("Cannot use effort ") ? "reasoning_effort" : undefined);
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

function kindOf(
  { reason, code = "provider_error" }: TurnEnd,
): { readonly status: number; readonly code: string } {
  if (reason === "cancelled") return { status: 499, code: reason };
  if (reason === "stalled") return { status: 504, code: reason };
  if (reason !== "model_error") return { status: 500, code: "internal_error" };
  if (code === "rate_limited") return { status: 429, code: "rate_limit_exceeded" };
  if (code === "prompt_too_long") return { status: 400, code: "context_length_exceeded" };
  return { status: 502, code };
}

/** The id of the model that is the server's own agent. */
export const AGENT_MODEL = "agent";

/** A parameter that can't be ignored when it has certain values, because the answer would be wrong. */
export interface UnsupportedParameter {
  readonly parameter: string;
  /** Whether this value of it is refused. Never called with `undefined` or `null`. */
  readonly refuses: (value: unknown) => boolean;
  /** Why, as the rest of a sentence after "is not supported: ". */
  readonly because: string;
}

/** Settings that other servers know, and that can't be handed on because most providers don't. */
export const REFUSED_SAMPLING: readonly UnsupportedParameter[] = [
  "top_k",
  "min_p",
  "top_a",
  "repetition_penalty",
]
  .map((parameter) => ({
    parameter,
    refuses: () => true,
    because: "the agent hands on temperature, top_p, penalties and seed alone",
  }));

/**
 * Refuses a body that asks for another model, or for what the agent can't do.
 *
 * @throws {ApiError} 404 for another model, 400 that names the parameter.
 */
export function refuseUnsupported(
  body: { readonly model: string; readonly [parameter: string]: unknown },
  unsupportedParameters: readonly UnsupportedParameter[],
): void {
  if (body.model !== AGENT_MODEL) throw noSuchModel(body.model);
  const parameters = new Map<string, unknown>(Object.entries(body));
  for (const { parameter, refuses, because } of unsupportedParameters) {
    const value = parameters.get(parameter) ?? undefined;
    if (value !== undefined && refuses(value)) throw unsupported(parameter, because);
  }
}

/** The error for another model than the agent. */
export function noSuchModel(id: string): ApiError {
  return new ApiError(
    404,
    `Cannot use model ${JSON.stringify(id)}: there is only ${JSON.stringify(AGENT_MODEL)}.`,
    { code: "model_not_found", param: "model" },
  );
}

/** The error for a parameter whose value is well-formed, but not supported. */
export function unsupported(parameter: string, because: string): ApiError {
  return new ApiError(400, `Cannot answer: ${parameter} is not supported: ${because}.`, {
    code: "unsupported_value",
    param: parameter,
  });
}

/** The error for a part of a request that can't be used: `state` says what is wrong with it. */
export function unusable(param: string, state: string): ApiError {
  return invalid(param, `Cannot use ${param}: ${state}.`);
}

/** The error for a request of which this parameter is at fault. */
export function invalid(param: string, message: string): ApiError {
  return new ApiError(400, message, { code: "invalid_request", param });
}
