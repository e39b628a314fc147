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

/** A choice that requires a call of one of the client's own tools. */
export const FORCED_TOOL_CHOICE: UnsupportedParameter = {
  parameter: "tool_choice",
  refuses: (value) => value !== "none" && value !== "auto",
  because: "the agent calls its own tools only, so that none of the client's can be required",
};

/**
 * Refuses a body that asks for another model, or for what the agent can't do.
 *
 * @throws {ApiError} 404 for another model, 400 that names the parameter.
 */
export function refuseUnsupported(
  body: { readonly model: string; readonly [parameter: string]: unknown },
  unsupportedParameters: readonly UnsupportedParameter[],
): void {
  if (body.model !== AGENT_MODEL) {
    throw new ApiError(
      404,
      `Cannot use model ${JSON.stringify(body.model)}: there is only ${JSON.stringify(AGENT_MODEL)}.`,
      { code: "model_not_found", param: "model" },
    );
  }
  const parameters = new Map<string, unknown>(Object.entries(body));
  for (const { parameter, refuses, because } of unsupportedParameters) {
    const value = parameters.get(parameter) ?? undefined;
    if (value !== undefined && refuses(value)) throw unsupported(parameter, because);
  }
}

/** The error for a parameter whose value is well-formed, but not supported. */
export function unsupported(parameter: string, because: string): ApiError {
  return new ApiError(400, `Cannot answer: ${parameter} is not supported: ${because}.`, {
    code: "unsupported_value",
    param: parameter,
  });
}
