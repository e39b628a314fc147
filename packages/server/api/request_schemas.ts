import type { Content, JsonSchema } from "@tare/messages";

/** What a turn or a session may cost. Default of each: no limit. */
export interface Budget {
  /** Most model calls. */
  readonly max_steps?: number;
  /** Most tokens, of prompts and replies together. */
  readonly max_tokens?: number;
  /** Highest cost of the prompts, in the price of one uncached input token. */
  readonly max_cost?: number;
}

/** JSON Schema of {@linkcode Budget}. */
export const BUDGET: JsonSchema = {
  type: "object",
  properties: {
    max_steps: { type: "integer", minimum: 1 },
    max_tokens: { type: "integer", minimum: 1 },
    max_cost: { type: "number", exclusiveMinimum: 0 },
  },
  additionalProperties: false,
};

/** Body of `POST /v1/sessions`. */
export interface CreateSession {
  /** The system message. Default: the server's. */
  readonly instructions?: string;
  /** Name of the model at the provider. Default: the server's. */
  readonly model?: string;
  /** Names of the tools that the session may use. Default: all. */
  readonly tools?: readonly string[];
  /** Kept with the session and handed back, for the client's own use. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** What all turns of the session may cost together. */
  readonly budget?: Budget;
}

/** JSON Schema of {@linkcode CreateSession}. */
export const CREATE_SESSION: JsonSchema = {
  type: "object",
  properties: {
    instructions: { type: "string" },
    model: { type: "string", minLength: 1 },
    tools: { type: "array", items: { type: "string" }, uniqueItems: true },
    metadata: { type: "object", additionalProperties: { type: "string" } },
    budget: BUDGET,
  },
  additionalProperties: false,
};

/** Body of `POST /v1/sessions/{id}/turns`: an input, or `continue`. */
export interface StartTurn {
  /** What the user says: text, or content parts in the chat-completions wire format. */
  readonly input?: Content;
  /** Goes on with a turn that ended before the model had answered. */
  readonly continue?: true;
  /** If a turn runs, the input enters it before its next model call. Default: a running turn refuses another one. */
  readonly steer?: boolean;
  /** What this turn may cost. */
  readonly budget?: Budget;
}

function part(type: string, body: JsonSchema): JsonSchema {
  return {
    if: { properties: { type: { const: type } } },
    then: { properties: { [type]: body }, required: [type] },
  };
}

function object(required: readonly string[], optional: readonly string[] = []): JsonSchema {
  return {
    type: "object",
    properties: Object.fromEntries([...required, ...optional].map((name) => [name, { type: "string" }])),
    required,
  };
}

/** JSON Schema of {@linkcode StartTurn}. */
export const START_TURN: JsonSchema = {
  type: "object",
  properties: {
    input: {
      type: ["string", "array"],
      minLength: 1,
      minItems: 1,
      items: {
        type: "object",
        properties: { type: { enum: ["text", "image_url", "input_audio", "file"] } },
        required: ["type"],
        allOf: [
          part("text", { type: "string" }),
          part("image_url", object(["url"], ["detail"])),
          part("input_audio", object(["data", "format"])),
          part("file", object([], ["file_data", "file_id", "filename"])),
        ],
      },
    },
    continue: { const: true },
    steer: { type: "boolean" },
    budget: BUDGET,
  },
  anyOf: [{ required: ["input"] }, { required: ["continue"] }],
  not: { required: ["input", "continue"] },
  additionalProperties: false,
};
