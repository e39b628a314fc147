import { ApiError } from "@tare/wire";

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
