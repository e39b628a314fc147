import type { Content, JsonSchema } from "@tare/messages";

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
}

/** JSON Schema of {@linkcode CreateSession}. */
export const CREATE_SESSION: JsonSchema = {
  type: "object",
  properties: {
    instructions: { type: "string" },
    model: { type: "string", minLength: 1 },
    tools: { type: "array", items: { type: "string" }, uniqueItems: true },
    metadata: { type: "object", additionalProperties: { type: "string" } },
  },
  additionalProperties: false,
};

/** Body of `POST /v1/sessions/{id}/turns`. */
export interface StartTurn {
  /** What the user says: text, or content parts in the chat-completions wire format. */
  readonly input: Content;
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
  },
  required: ["input"],
  additionalProperties: false,
};
