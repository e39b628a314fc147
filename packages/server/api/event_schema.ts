import type { FinishReason, ModelErrorCode, TurnEndReason } from "@tare/loop";
import type { JsonSchema } from "@tare/messages";
import { ASSISTANT_MESSAGE, CONTENT, MESSAGE } from "./message_schemas.ts";
import { objectSchema } from "../http/object_schema.ts";
import type { SessionEvent } from "../sessions/session_event.ts";

const STRING: JsonSchema = { type: "string" };
const BOOLEAN: JsonSchema = { type: "boolean" };
const TOKENS: JsonSchema = { type: "number", minimum: 0 };
const STEP: JsonSchema = { type: "integer", minimum: 1 };

/** JSON Schema of what a turn, or all turns of a session, cost. */
export const LEDGER: JsonSchema = {
  title: "Ledger",
  ...objectSchema({
    calls: { type: "integer", minimum: 0 },
    promptTokens: TOKENS,
    cachedTokens: TOKENS,
    outputTokens: TOKENS,
    saved: { type: "object", additionalProperties: { type: "number" } },
    estimated: BOOLEAN,
  }),
};

const USAGE: JsonSchema = {
  title: "Usage",
  ...objectSchema(
    { promptTokens: TOKENS, cachedTokens: TOKENS, outputTokens: TOKENS },
    { cacheWriteTokens: TOKENS, estimated: BOOLEAN },
  ),
};

// Keyed, so that a member that is added to one of these types and not here is a type error.
const FINISH_REASONS: Readonly<Record<FinishReason, true>> = {
  stop: true,
  tool_calls: true,
  length: true,
  content_filter: true,
};
const END_REASONS: Readonly<Record<TurnEndReason, true>> = {
  completed: true,
  cancelled: true,
  step_limit: true,
  output_limit: true,
  budget: true,
  interrupted: true,
  stalled: true,
  model_error: true,
  internal_error: true,
};
const MODEL_ERRORS: Readonly<Record<ModelErrorCode, true>> = {
  bad_key: true,
  no_such_model: true,
  prompt_too_long: true,
  rate_limited: true,
  unreachable: true,
  bad_request: true,
  bad_response: true,
  provider_error: true,
};

function oneOf(members: Readonly<Record<string, true>>): JsonSchema {
  return { enum: Object.keys(members) };
}

type Properties = Readonly<Record<string, JsonSchema>>;

/** The fields of each event beside `type`: those that are required, then the optional ones. */
const FIELDS: Readonly<Record<SessionEvent["type"], readonly [required: Properties, optional?: Properties]>> =
  {
    message_added: [{ message: MESSAGE }],
    turn_start: [{}, { input: CONTENT }],
    step_start: [{ step: STEP }],
    user_message: [{ step: STEP, input: CONTENT }],
    context_rewritten: [{
      step: STEP,
      mechanism: STRING,
      reason: STRING,
      removed: STRING,
      tokensBefore: TOKENS,
      tokensAfter: TOKENS,
    }],
    warning: [{ message: STRING }],
    text_delta: [{ step: STEP, text: STRING }],
    reasoning_delta: [{ step: STEP, text: STRING }],
    assistant_message: [{ step: STEP, message: ASSISTANT_MESSAGE }],
    tool_call: [{ step: STEP, id: STRING, name: STRING, arguments: STRING }],
    tool_result: [{
      step: STEP,
      id: STRING,
      name: STRING,
      content: STRING,
      error: BOOLEAN,
      bytes: { type: "integer", minimum: 0 },
      durationMs: { type: "number", minimum: 0 },
    }],
    step_end: [{
      step: STEP,
      usage: USAGE,
      finishReason: oneOf(FINISH_REASONS),
    }, { ledger: { type: "object", description: "What the call cost and why, by the server's policy." } }],
    turn_end: [
      { reason: oneOf(END_REASONS), text: STRING, ledger: LEDGER },
      { message: STRING, code: oneOf(MODEL_ERRORS) },
    ],
  };

/** JSON Schema of an event: the `data` of each server-sent event of a session's streams. */
export const EVENT: JsonSchema = {
  title: "Event",
  oneOf: Object.entries(FIELDS).map(([type, [required, optional]]) => ({
    title: `${type.split("_").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}Event`,
    ...objectSchema({ type: { const: type }, ...required }, optional),
  })),
};
