import type { JsonSchema, Message } from "@tare/messages";
import { openObjectSchema } from "../http/open_object_schema.ts";

const STRING: JsonSchema = { type: "string" };

/** JSON Schema of a message's content: text, or parts of the chat-completions wire format. */
export const CONTENT: JsonSchema = {
  title: "Content",
  type: ["string", "array"],
  items: { type: "object", properties: { type: STRING }, required: ["type"] },
};

const TOOL_CALL: JsonSchema = {
  title: "ToolCall",
  type: "object",
  properties: {
    id: STRING,
    type: { enum: ["function", "custom"] },
    function: openObjectSchema({ name: STRING, arguments: STRING }),
    custom: openObjectSchema({ name: STRING, input: STRING }),
  },
  required: ["id", "type"],
  if: { properties: { type: { const: "function" } } },
  then: { required: ["function"] },
  else: { required: ["custom"] },
};

/** JSON Schema of a reply of the model. Fields that providers add are legal. */
export const ASSISTANT_MESSAGE: JsonSchema = {
  title: "AssistantMessage",
  type: "object",
  properties: {
    role: { const: "assistant" },
    content: { anyOf: [CONTENT, { type: "null" }] },
    refusal: { type: ["string", "null"] },
    reasoning_content: { type: ["string", "null"] },
    tool_calls: { type: "array", items: TOOL_CALL },
  },
  required: ["role"],
};

const SAID: JsonSchema = {
  type: "object",
  properties: { role: { enum: ["system", "developer", "user"] }, content: CONTENT },
  required: ["role", "content"],
};

/** JSON Schema of a message of each role. */
export const MESSAGE_BY_ROLE: Readonly<Record<Message["role"], JsonSchema>> = {
  system: SAID,
  developer: SAID,
  user: SAID,
  assistant: ASSISTANT_MESSAGE,
  tool: {
    type: "object",
    properties: { role: { const: "tool" }, tool_call_id: STRING, content: CONTENT },
    required: ["role", "tool_call_id", "content"],
  },
  function: {
    type: "object",
    properties: { role: { const: "function" }, name: STRING, content: { type: ["string", "null"] } },
    required: ["role", "name", "content"],
  },
};

/** JSON Schema of a message of a session's history. */
export const MESSAGE: JsonSchema = {
  title: "Message",
  oneOf: [...new Set(Object.values(MESSAGE_BY_ROLE))],
};
