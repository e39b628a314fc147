import { OpenaiError } from "./openai_error.ts";

/** The id of the model that is the server's own agent. */
export const AGENT_MODEL = "agent";

/** A parameter that can't be ignored when it has certain values, because the answer would be wrong. */
export interface Refusal {
  /** The parameter. */
  readonly parameter: string;
  /** Whether this value of it is refused. Never called with `undefined` or `null`. */
  readonly refuses: (value: unknown) => boolean;
  /** Why, as the rest of a sentence after "is not supported: ". */
  readonly because: string;
}

/** The error for a model that isn't there. */
export function modelNotFound(model: string): OpenaiError {
  return new OpenaiError(
    404,
    `Cannot use model ${JSON.stringify(model)}: there is only ${JSON.stringify(AGENT_MODEL)}.`,
    { code: "model_not_found", param: "model" },
  );
}

/** Refuses a body that asks for what the agent can't do. @throws {OpenaiError} 400 that names the parameter. */
export function refuseUnsupported(body: object, refusals: readonly Refusal[]): void {
  const parameters = new Map<string, unknown>(Object.entries(body));
  for (const { parameter, refuses, because } of refusals) {
    const value = parameters.get(parameter) ?? undefined;
    if (value !== undefined && refuses(value)) throw unsupported(parameter, because);
  }
}

/** The error for a parameter whose value is well-formed, but not supported. */
export function unsupported(parameter: string, because: string): OpenaiError {
  return new OpenaiError(400, `Cannot answer: ${parameter} is not supported: ${because}.`, {
    code: "unsupported_value",
    param: parameter,
  });
}

/** Whether a value of `tool_choice` requires a call of one of the client's own tools. */
export function isForcedChoice(value: unknown): boolean {
  return value !== "none" && value !== "auto";
}
