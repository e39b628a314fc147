import type { JsonSchema } from "@tare/messages";
import { objectSchema } from "../http/object_schema.ts";
import { openObjectSchema } from "../http/open_object_schema.ts";
import { isForcedChoice, type Refusal } from "./openai_request.ts";
import { taggedSchema } from "../http/tagged_schema.ts";

/** One part of a message in the input. */
export type InputPart =
  | { readonly type: "input_text" | "output_text"; readonly text: string }
  | { readonly type: "refusal"; readonly refusal: string }
  | { readonly type: "input_image"; readonly image_url?: string | null; readonly detail?: string | null }
  | {
    readonly type: "input_file";
    readonly file_data?: string | null;
    readonly file_id?: string | null;
    readonly file_url?: string | null;
    readonly filename?: string | null;
  };

/** One item of the input. */
export interface InputItem {
  /** What it is. Default: a message if it has a role, otherwise a reference. */
  readonly type?: string | null;
  /** Who says it, if it is a message. */
  readonly role?: "user" | "assistant" | "system" | "developer";
  /** What is said. */
  readonly content?: string | readonly InputPart[];
  /** Names an item of an earlier response. */
  readonly id?: string;
}

/** Body of `POST /v1/responses`, as far as the agent heeds it. */
export interface ResponsesRequest {
  /** Always `agent`. */
  readonly model: string;
  /** What the user says, or the conversation. */
  readonly input: string | readonly InputItem[];
  /** What the agent shall heed in this response. */
  readonly instructions?: string | null;
  /** The response that this one follows. */
  readonly previous_response_id?: string | null;
  /** Whether the response can be read later and be followed. Default: yes. */
  readonly store?: boolean | null;
  /** Whether it comes as server-sent events. Default: no. */
  readonly stream?: boolean | null;
  /** Output tokens after which the agent's model isn't called again. */
  readonly max_output_tokens?: number | null;
  /** Keeps apart what different users say. */
  readonly user?: string | null;
  /** The newer name of `user`. */
  readonly safety_identifier?: string | null;
  /** Kept with the response and with a new session. */
  readonly metadata?: Readonly<Record<string, string>> | null;
}

const text: JsonSchema = { type: "string" };
const optionalText: JsonSchema = { type: ["string", "null"] };
const optionalFlag: JsonSchema = { type: ["boolean", "null"] };
const count: JsonSchema = { type: "integer", minimum: 0 };

const MESSAGE_CONTENT: JsonSchema = {
  type: ["string", "array"],
  items: taggedSchema("type", {
    input_text: openObjectSchema({ text }),
    output_text: openObjectSchema({ text }),
    refusal: openObjectSchema({ refusal: text }),
    input_image: openObjectSchema({}, { image_url: optionalText, detail: optionalText }),
    input_file: openObjectSchema({}, {
      file_data: optionalText,
      file_id: optionalText,
      file_url: optionalText,
      filename: optionalText,
    }),
  }),
};

/** JSON Schema of {@linkcode ResponsesRequest}. What it doesn't name is ignored. */
export const RESPONSES_REQUEST: JsonSchema = {
  title: "ResponseRequest",
  ...openObjectSchema({
    model: text,
    input: {
      type: ["string", "array"],
      minLength: 1,
      minItems: 1,
      items: openObjectSchema({}, {
        type: optionalText,
        role: { enum: ["user", "assistant", "system", "developer"] },
        content: MESSAGE_CONTENT,
        id: text,
      }),
    },
  }, {
    instructions: optionalText,
    previous_response_id: optionalText,
    store: optionalFlag,
    stream: optionalFlag,
    max_output_tokens: { type: ["integer", "null"], minimum: 1 },
    user: optionalText,
    safety_identifier: optionalText,
    metadata: { type: ["object", "null"], additionalProperties: text },
  }),
};

/** Parameters of a request for a response that can't be ignored. */
export const RESPONSES_REFUSALS: readonly Refusal[] = [
  {
    parameter: "tool_choice",
    refuses: isForcedChoice,
    because: "the agent calls its own tools only, so that none of the client's can be required",
  },
  {
    parameter: "text",
    refuses: (value) => {
      const { format } = Object(value) as { readonly format?: { readonly type?: unknown } | null };
      return format != null && format.type !== "text";
    },
    because: "the agent answers in plain text",
  },
  {
    parameter: "background",
    refuses: (value) => value !== false,
    because: "a response ends with its request",
  },
  { parameter: "conversation", refuses: () => true, because: "previous_response_id is what continues" },
  { parameter: "prompt", refuses: () => true, because: "the agent has no prompt templates" },
  { parameter: "max_tool_calls", refuses: () => true, because: "the agent's tool calls aren't counted" },
  { parameter: "top_logprobs", refuses: (value) => value !== 0, because: "the agent gives none" },
];

const STATUS: JsonSchema = { enum: ["in_progress", "completed", "incomplete"] };
const TEXT_PART: JsonSchema = objectSchema({
  type: { const: "output_text" },
  text,
  annotations: { type: "array", maxItems: 0 },
  logprobs: { type: "array", maxItems: 0 },
});
const SUMMARY_PART: JsonSchema = objectSchema({ type: { const: "summary_text" }, text });

const OUTPUT_ITEM: JsonSchema = {
  anyOf: [
    objectSchema({
      id: text,
      type: { const: "message" },
      role: { const: "assistant" },
      status: STATUS,
      content: { type: "array", items: TEXT_PART },
    }),
    objectSchema({
      id: text,
      type: { const: "reasoning" },
      status: STATUS,
      summary: { type: "array", items: SUMMARY_PART },
    }),
  ],
};

/** JSON Schema of a response. */
export const RESPONSE: JsonSchema = {
  title: "Response",
  ...objectSchema({
    id: text,
    object: { const: "response" },
    created_at: count,
    completed_at: { type: ["integer", "null"] },
    status: { enum: ["in_progress", "completed", "incomplete", "failed"] },
    background: { const: false },
    error: { anyOf: [{ type: "null" }, objectSchema({ code: text, message: text })] },
    incomplete_details: {
      anyOf: [{ type: "null" }, objectSchema({ reason: { enum: ["max_output_tokens", "content_filter"] } })],
    },
    instructions: optionalText,
    max_output_tokens: { type: ["integer", "null"] },
    metadata: { type: "object", additionalProperties: text },
    model: text,
    output: { type: "array", items: OUTPUT_ITEM },
    parallel_tool_calls: { const: true },
    previous_response_id: optionalText,
    store: { type: "boolean" },
    temperature: { type: "null" },
    text: objectSchema({ format: objectSchema({ type: { const: "text" } }) }),
    tool_choice: { const: "auto" },
    tools: { type: "array", maxItems: 0 },
    top_p: { type: "null" },
    truncation: { const: "disabled" },
    usage: {
      anyOf: [
        { type: "null" },
        objectSchema({
          input_tokens: count,
          input_tokens_details: objectSchema({ cached_tokens: count }),
          output_tokens: count,
          output_tokens_details: objectSchema({ reasoning_tokens: count }),
          total_tokens: count,
        }),
      ],
    },
    user: optionalText,
  }),
};

const LIFECYCLE = objectSchema({ response: RESPONSE });
const ITEM = objectSchema({ output_index: count, item: OUTPUT_ITEM });
const inItem = (index: "content_index" | "summary_index", rest: Readonly<Record<string, JsonSchema>>) =>
  objectSchema({ item_id: text, output_index: count, [index]: count, ...rest });
const logprobs: JsonSchema = { type: "array", maxItems: 0 };

const EVENTS: Readonly<Record<string, JsonSchema>> = {
  "response.created": LIFECYCLE,
  "response.in_progress": LIFECYCLE,
  "response.completed": LIFECYCLE,
  "response.incomplete": LIFECYCLE,
  "response.failed": LIFECYCLE,
  "response.output_item.added": ITEM,
  "response.output_item.done": ITEM,
  "response.content_part.added": inItem("content_index", { part: TEXT_PART }),
  "response.content_part.done": inItem("content_index", { part: TEXT_PART }),
  "response.output_text.delta": inItem("content_index", { delta: text, logprobs }),
  "response.output_text.done": inItem("content_index", { text, logprobs }),
  "response.reasoning_summary_part.added": inItem("summary_index", { part: SUMMARY_PART }),
  "response.reasoning_summary_part.done": inItem("summary_index", { part: SUMMARY_PART }),
  "response.reasoning_summary_text.delta": inItem("summary_index", { delta: text }),
  "response.reasoning_summary_text.done": inItem("summary_index", { text }),
};

/** JSON Schema of the data of each event of a streamed response. */
export const RESPONSE_EVENT: JsonSchema = {
  title: "ResponseEvent",
  anyOf: Object.entries(EVENTS).map(([type, { properties }]) =>
    objectSchema({
      type: { const: type },
      sequence_number: count,
      ...(properties as Record<string, JsonSchema>),
    })
  ),
};
