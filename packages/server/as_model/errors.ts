import { ModelError, type TurnEnd } from "@tare/loop";
import { ApiError, MESSAGES_PROTOCOL } from "@tare/wire/internal";
import { Type } from "typebox";
import { errorResponse, toHttpError } from "../http/http_error.ts";
import type { RouteErrors } from "../http/route.ts";
import { closed } from "../http/schema.ts";

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
      message: "Cannot answer: n is not supported: the agent returns one answer.",
      type: "invalid_request_error",
      param: "n",
      code: "unsupported_value",
    },
  },
);

export const API_ERRORS: RouteErrors = {
  schema: API_ERROR,
  respond: (error) => toApiError(error).toResponse(),
};

/** Additional errors of a turn, by status. */
export const TURN_ERRORS = {
  404: "The model, or an object that the request refers to, doesn't exist.",
  429: "Too many turns run, or the provider's rate limit is exceeded.",
  499: "The turn was cancelled.",
  502: "The provider failed.",
  504: "The turn stalled.",
  507: "The limit of sessions is reached.",
};

/** Returns the error format that clients of a path without a route expect. */
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

/** Converts an error to OpenAI's shape, without internal details. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const { status, message, code, headers } = toHttpError(error);
  return new ApiError(status, message, { code, headers, ...paramOf(message) });
}

function paramOf(message: string): { readonly param?: string } {
  const param = /^Cannot use the body: the body must have required property '(\w+)'/.exec(message)?.[1] ??
    /^Cannot use the (?:body|query): ([\w.]+) must /.exec(message)?.[1] ??
    (message.startsWith("Cannot use effort ") ? "reasoning_effort" : undefined);
  return param === undefined ? {} : { param: param.replaceAll(/\.(\d+)/g, "[$1]") };
}

/**
 * Returns the error of a turn without an answer. The provider's faults are 502, whatever its status: its 401 isn't
 * about the client's key. Refused settings are 400. A cancelled turn is 499, which clients don't retry.
 * @param error The error that ended the turn, if any.
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

/** Model id of the server's agent. */
export const AGENT_MODEL = "agent";

/** A parameter that can't be ignored with certain values. */
export interface UnsupportedParameter {
  readonly parameter: string;
  /** Never called with `undefined` or `null`. */
  readonly refuses: (value: unknown) => boolean;
  /** Follows "is not supported: ". */
  readonly because: string;
}

/** Settings that most providers lack. */
export const REFUSED_SAMPLING: readonly UnsupportedParameter[] = [
  "top_k",
  "min_p",
  "top_a",
  "repetition_penalty",
]
  .map((parameter) => ({
    parameter,
    refuses: () => true,
    because: "the agent forwards only temperature, top_p, penalties and seed",
  }));

/**
 * Checks the model and its parameters.
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

export function noSuchModel(id: string): ApiError {
  return new ApiError(
    404,
    `Cannot use model ${JSON.stringify(id)}: the only model is ${JSON.stringify(AGENT_MODEL)}.`,
    { code: "model_not_found", param: "model" },
  );
}

export function unsupported(parameter: string, because: string): ApiError {
  return new ApiError(400, `Cannot answer: ${parameter} is not supported: ${because}.`, {
    code: "unsupported_value",
    param: parameter,
  });
}

export function unusable(param: string, state: string): ApiError {
  return invalid(param, `Cannot use ${param}: ${state}.`);
}

export function invalid(param: string, message: string): ApiError {
  return new ApiError(400, message, { code: "invalid_request", param });
}
