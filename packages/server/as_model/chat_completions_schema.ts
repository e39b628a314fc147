import type { Content, JsonSchema } from "@tare/messages";
import { OPENAI_ERROR } from "./openai_error.ts";
import { isForcedChoice, type Refusal } from "./openai_request.ts";
import { objectSchema } from "../http/object_schema.ts";
import { openObjectSchema } from "../http/open_object_schema.ts";
import { taggedSchema } from "../http/tagged_schema.ts";

/** A message of a chat-completions request, as far as the agent reads it. */
export interface ChatMessage {
  /** Who says it. */
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  /** What is said. */
  readonly content?: Content | null;
  /** What an assistant said instead of an answer. */
  readonly refusal?: string | null;
}

/** Body of `POST /v1/chat/completions`, as far as the agent heeds it. */
export interface ChatRequest {
  /** Always `agent`. */
  readonly model: string;
  /** The whole conversation. */
  readonly messages: readonly ChatMessage[];
  /** Whether the answer comes as server-sent events. Default: no. */
  readonly stream?: boolean | null;
  /** How it comes. */
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
  /** Output tokens after which the agent's model isn't called again. */
  readonly max_completion_tokens?: number | null;
  /** The older name of `max_completion_tokens`. */
  readonly max_tokens?: number | null;
  /** Keeps apart what different users say. */
  readonly user?: string | null;
  /** The newer name of `user`. */
  readonly safety_identifier?: string | null;
  /** Kept with a new session. */
  readonly metadata?: Readonly<Record<string, string>> | null;
}

const text: JsonSchema = { type: "string" };
const count: JsonSchema = { type: "integer", minimum: 0 };

const TEXT_PARTS: JsonSchema = {
  type: ["string", "array"],
  items: taggedSchema("type", {
    text: openObjectSchema({ text }),
    refusal: openObjectSchema({ refusal: text }),
  }),
};

const USER_CONTENT: JsonSchema = {
  type: ["string", "array"],
  minLength: 1,
  minItems: 1,
  items: taggedSchema("type", {
    text: openObjectSchema({ text }),
    image_url: openObjectSchema({ image_url: openObjectSchema({ url: text }, { detail: text }) }),
    input_audio: openObjectSchema({ input_audio: openObjectSchema({ data: text, format: text }) }),
    file: openObjectSchema({
      file: openObjectSchema({}, { file_data: text, file_id: text, filename: text }),
    }),
  }),
};

const CALLER: JsonSchema = {};

/** JSON Schema of {@linkcode ChatRequest}. What it doesn't name is ignored. */
export const CHAT_REQUEST: JsonSchema = {
  title: "ChatCompletionRequest",
  type: "object",
  properties: {
    model: text,
    messages: {
      type: "array",
      minItems: 1,
      items: taggedSchema("role", {
        system: openObjectSchema({ content: TEXT_PARTS }),
        developer: openObjectSchema({ content: TEXT_PARTS }),
        user: openObjectSchema({ content: USER_CONTENT }),
        assistant: openObjectSchema({}, {
          content: { ...TEXT_PARTS, type: ["string", "array", "null"] },
          refusal: { type: ["string", "null"] },
        }),
        tool: CALLER,
        function: CALLER,
      }),
    },
    stream: { type: ["boolean", "null"] },
    stream_options: {
      type: ["object", "null"],
      properties: { include_usage: { type: ["boolean", "null"] } },
    },
    max_completion_tokens: { type: ["integer", "null"], minimum: 1 },
    max_tokens: { type: ["integer", "null"], minimum: 1 },
    user: { type: ["string", "null"] },
    safety_identifier: { type: ["string", "null"] },
    metadata: { type: ["object", "null"], additionalProperties: text },
  },
  required: ["model", "messages"],
};

const hasEntries = (value: unknown): boolean => Object.keys(Object(value)).length > 0;

/** Parameters of a chat-completions request that can't be ignored. */
export const CHAT_REFUSALS: readonly Refusal[] = [
  { parameter: "n", refuses: (n) => n !== 1, because: "the agent gives one answer" },
  {
    parameter: "tool_choice",
    refuses: isForcedChoice,
    because: "the agent calls its own tools only, so that none of the client's can be required",
  },
  {
    parameter: "function_call",
    refuses: isForcedChoice,
    because: "the agent calls its own tools only, so that none of the client's can be required",
  },
  {
    parameter: "response_format",
    refuses: (format) => (format as { readonly type?: unknown }).type !== "text",
    because: "the agent answers in plain text",
  },
  { parameter: "logprobs", refuses: (value) => value !== false, because: "the agent gives none" },
  { parameter: "top_logprobs", refuses: (value) => value !== 0, because: "the agent gives none" },
  { parameter: "logit_bias", refuses: hasEntries, because: "the agent's model takes none" },
  { parameter: "stop", refuses: hasEntries, because: "the agent's answers aren't cut off at a text" },
  { parameter: "audio", refuses: () => true, because: "the agent answers in text" },
  {
    parameter: "modalities",
    refuses: (value) => !(Array.isArray(value) && value.every((one) => one === "text")),
    because: "the agent answers in text",
  },
  { parameter: "web_search_options", refuses: () => true, because: "the agent searches with its own tools" },
];

/** JSON Schema of the usage of an answer: sums over the turn's model calls. */
const CHAT_USAGE: JsonSchema = objectSchema({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: objectSchema({ cached_tokens: count }),
});

const FINISH_REASON: JsonSchema = { enum: ["stop", "length", "content_filter"] };

/** JSON Schema of an answer that isn't streamed. */
export const CHAT_COMPLETION: JsonSchema = {
  title: "ChatCompletion",
  ...objectSchema({
    id: text,
    object: { const: "chat.completion" },
    created: count,
    model: text,
    choices: {
      type: "array",
      minItems: 1,
      maxItems: 1,
      items: objectSchema({
        index: { const: 0 },
        message: objectSchema(
          { role: { const: "assistant" }, content: text, refusal: { type: "null" } },
          { reasoning_content: text },
        ),
        finish_reason: FINISH_REASON,
        logprobs: { type: "null" },
      }),
    },
    usage: CHAT_USAGE,
  }),
};

/** JSON Schema of one chunk of a streamed answer. */
const CHAT_COMPLETION_CHUNK: JsonSchema = {
  title: "ChatCompletionChunk",
  ...objectSchema({
    id: text,
    object: { const: "chat.completion.chunk" },
    created: count,
    model: text,
    choices: {
      type: "array",
      maxItems: 1,
      items: objectSchema({
        index: { const: 0 },
        delta: objectSchema({}, { role: { const: "assistant" }, content: text, reasoning_content: text }),
        finish_reason: { enum: ["stop", "length", "content_filter", null] },
        logprobs: { type: "null" },
      }),
    },
  }, { usage: { anyOf: [{ type: "null" }, CHAT_USAGE] } }),
};

/** JSON Schema of the data of each event of a streamed answer; the text `[DONE]`, which is no JSON, is the last. */
export const CHAT_COMPLETION_EVENT: JsonSchema = {
  anyOf: [CHAT_COMPLETION_CHUNK, OPENAI_ERROR, { const: "[DONE]" }],
};
