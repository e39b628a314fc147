import { type Static, type TProperties, Type } from "typebox";
import { closed, COUNT, METADATA, nullable, orNull, tagged, textOr } from "../http/schema.ts";
import { SAMPLING, TOOL_CHOICE, TOOL_FIELDS, TOOL_NAME } from "./client_tools.ts";
import { REFUSED_SAMPLING, type UnsupportedParameter } from "./errors.ts";

const TEXT = Type.String();

const INPUT_PART = tagged("type", {
  input_text: Type.Object({ text: TEXT }),
  output_text: Type.Object({ text: TEXT }),
  refusal: Type.Object({ refusal: TEXT }),
  input_image: Type.Object({ image_url: nullable(TEXT), detail: nullable(TEXT) }),
  input_file: Type.Object({
    file_data: nullable(TEXT),
    file_id: nullable(TEXT),
    file_url: nullable(TEXT),
    filename: nullable(TEXT),
  }),
});
export type InputPart = Static<typeof INPUT_PART>;

const INPUT_ITEM = Type.Object({
  /** Default: a message if it has a role, otherwise a reference. */
  type: nullable(TEXT),
  role: Type.Optional(Type.Enum(["user", "assistant", "system", "developer"])),
  content: Type.Optional(textOr(INPUT_PART)),
  /** Id of an earlier response's item. */
  id: nullable(TEXT),
  call_id: Type.Optional(TEXT),
  name: Type.Optional(TEXT),
  arguments: Type.Optional(TEXT),
  output: Type.Optional(textOr(INPUT_PART)),
});
export type InputItem = Static<typeof INPUT_ITEM>;

/** Body of `POST /v1/responses`. Other properties are ignored. */
export const RESPONSES_REQUEST = Type.Object({
  model: TEXT,
  input: textOr(INPUT_ITEM, 1),
  instructions: nullable(TEXT),
  previous_response_id: nullable(TEXT),
  store: nullable(Type.Boolean()),
  stream: nullable(Type.Boolean()),
  /** Output tokens after which no further model call is made. */
  max_output_tokens: nullable(Type.Integer({ minimum: 1 })),
  /** Separates conversations. */
  user: nullable(TEXT),
  /** Newer name. */
  safety_identifier: nullable(TEXT),
  metadata: nullable(METADATA),
  tools: nullable(Type.Array(Type.Object({ type: TEXT, name: Type.Optional(TOOL_NAME), ...TOOL_FIELDS }))),
  tool_choice: Type.Optional(TOOL_CHOICE),
  parallel_tool_calls: nullable(Type.Boolean()),
  ...SAMPLING,
  reasoning: nullable(Type.Object({ effort: nullable(TEXT) })),
  text: nullable(Type.Object({ verbosity: nullable(TEXT) })),
}, { title: "ResponseRequest", examples: [{ model: "agent", input: "Which files are there?" }] });
export type ResponsesRequest = Static<typeof RESPONSES_REQUEST>;

export const UNSUPPORTED_IN_RESPONSES: readonly UnsupportedParameter[] = [
  ...REFUSED_SAMPLING,
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
  { parameter: "conversation", refuses: () => true, because: "use previous_response_id instead" },
  { parameter: "prompt", refuses: () => true, because: "the agent has no prompt templates" },
  { parameter: "max_tool_calls", refuses: () => true, because: "the agent doesn't limit tool calls" },
  { parameter: "top_logprobs", refuses: (value) => value !== 0, because: "the agent returns none" },
];

const STATUS = Type.Enum(["in_progress", "completed", "incomplete"]);
const NOTHING = Type.Array(Type.Unknown(), { maxItems: 0 });
const TEXT_PART = closed({
  type: Type.Literal("output_text"),
  text: TEXT,
  annotations: NOTHING,
  logprobs: NOTHING,
});
const SUMMARY_PART = closed({ type: Type.Literal("summary_text"), text: TEXT });

const OUTPUT_ITEM = Type.Union([
  closed({
    id: TEXT,
    type: Type.Literal("message"),
    role: Type.Literal("assistant"),
    status: STATUS,
    content: Type.Array(TEXT_PART),
  }),
  closed({ id: TEXT, type: Type.Literal("reasoning"), status: STATUS, summary: Type.Array(SUMMARY_PART) }),
  closed({
    id: TEXT,
    type: Type.Literal("function_call"),
    status: STATUS,
    call_id: TEXT,
    name: TEXT,
    arguments: TEXT,
  }),
]);

export const RESPONSE = closed({
  id: TEXT,
  object: Type.Literal("response"),
  created_at: COUNT,
  completed_at: orNull(Type.Integer()),
  status: Type.Enum(["in_progress", "completed", "incomplete", "failed"]),
  background: Type.Literal(false),
  error: orNull(closed({ code: TEXT, message: TEXT })),
  incomplete_details: orNull(closed({ reason: Type.Enum(["max_output_tokens", "content_filter"]) })),
  instructions: orNull(TEXT),
  max_output_tokens: orNull(Type.Integer()),
  metadata: METADATA,
  model: TEXT,
  output: Type.Array(OUTPUT_ITEM),
  parallel_tool_calls: Type.Boolean(),
  previous_response_id: orNull(TEXT),
  store: Type.Boolean(),
  temperature: orNull(Type.Number()),
  text: closed({ format: closed({ type: Type.Literal("text") }) }),
  tool_choice: Type.Union([TEXT, Type.Object({})]),
  tools: Type.Array(Type.Object({})),
  top_p: orNull(Type.Number()),
  truncation: Type.Literal("disabled"),
  usage: orNull(closed({
    input_tokens: COUNT,
    input_tokens_details: closed({ cached_tokens: COUNT }),
    output_tokens: COUNT,
    output_tokens_details: closed({ reasoning_tokens: COUNT }),
    total_tokens: COUNT,
  })),
  user: orNull(TEXT),
}, "Response");

const LIFECYCLE = { response: RESPONSE };
const ITEM = { output_index: COUNT, item: OUTPUT_ITEM };
const inText = (fields: TProperties) => ({
  item_id: TEXT,
  output_index: COUNT,
  content_index: COUNT,
  ...fields,
});
const inSummary = (fields: TProperties) => ({
  item_id: TEXT,
  output_index: COUNT,
  summary_index: COUNT,
  ...fields,
});

const EVENTS: Readonly<Record<string, TProperties>> = {
  "response.created": LIFECYCLE,
  "response.in_progress": LIFECYCLE,
  "response.completed": LIFECYCLE,
  "response.incomplete": LIFECYCLE,
  "response.failed": LIFECYCLE,
  "response.output_item.added": ITEM,
  "response.output_item.done": ITEM,
  "response.function_call_arguments.delta": { item_id: TEXT, output_index: COUNT, delta: TEXT },
  "response.function_call_arguments.done": {
    item_id: TEXT,
    output_index: COUNT,
    name: TEXT,
    arguments: TEXT,
  },
  "response.content_part.added": inText({ part: TEXT_PART }),
  "response.content_part.done": inText({ part: TEXT_PART }),
  "response.output_text.delta": inText({ delta: TEXT, logprobs: NOTHING }),
  "response.output_text.done": inText({ text: TEXT, logprobs: NOTHING }),
  "response.reasoning_summary_part.added": inSummary({ part: SUMMARY_PART }),
  "response.reasoning_summary_part.done": inSummary({ part: SUMMARY_PART }),
  "response.reasoning_summary_text.delta": inSummary({ delta: TEXT }),
  "response.reasoning_summary_text.done": inSummary({ text: TEXT }),
};

/** Event data of a streamed response. */
export const RESPONSE_EVENT = Type.Union(
  Object.entries(EVENTS).map(([type, fields]) =>
    closed({ type: Type.Literal(type), sequence_number: COUNT, ...fields })
  ),
  { title: "ResponseEvent" },
);
