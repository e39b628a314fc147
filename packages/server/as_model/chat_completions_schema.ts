import type { Content, ToolCall } from "@tare/messages";
import { type Static, Type } from "typebox";
import { USER_CONTENT } from "../api/message_schemas.ts";
import { closed, COUNT, METADATA, nullable, tagged, textOr } from "../http/schema.ts";
import { SAMPLING, TOOL_CHOICE, TOOL_FIELDS, TOOL_NAME } from "./client_tools.ts";
import { API_ERROR, REFUSED_SAMPLING, type UnsupportedParameter } from "./errors.ts";

/** A message of a chat-completions request, as far as the agent reads it. */
export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: Content | null;
  /** What an assistant said instead of an answer. */
  readonly refusal?: string | null;
  /** Calls that an assistant left to the client. */
  readonly tool_calls?: readonly ToolCall[] | null;
  /** The call that a result answers. */
  readonly tool_call_id?: string;
}

const TEXT = Type.String();
const TEXT_PARTS = textOr(
  tagged("type", { text: Type.Object({ text: TEXT }), refusal: Type.Object({ refusal: TEXT }) }),
);
const INSTRUCTIONS = Type.Object({ content: TEXT_PARTS });

/** Body of `POST /v1/chat/completions`, as far as the agent heeds it. What it doesn't name is ignored. */
export const CHAT_REQUEST = Type.Object({
  model: TEXT,
  messages: Type.Array(
    Type.Unsafe<ChatMessage>(tagged("role", {
      system: INSTRUCTIONS,
      developer: INSTRUCTIONS,
      user: Type.Object({ content: USER_CONTENT }),
      assistant: Type.Object({
        content: Type.Optional({ ...TEXT_PARTS, type: ["string", "array", "null"] }),
        refusal: nullable(TEXT),
        tool_calls: nullable(Type.Array(
          tagged("type", {
            function: Type.Object({ id: TEXT, function: Type.Object({ name: TEXT, arguments: TEXT }) }),
            custom: Type.Unknown(),
          }),
        )),
      }),
      tool: Type.Object({ tool_call_id: TEXT, content: TEXT_PARTS }),
      function: Type.Unknown(),
    })),
    { minItems: 1 },
  ),
  stream: nullable(Type.Boolean()),
  stream_options: nullable(Type.Object({ include_usage: nullable(Type.Boolean()) })),
  /** Output tokens after which the agent's model isn't called again. */
  max_completion_tokens: nullable(Type.Integer({ minimum: 1 })),
  /** The older name of `max_completion_tokens`. */
  max_tokens: nullable(Type.Integer({ minimum: 1 })),
  /** Keeps apart what different users say. */
  user: nullable(TEXT),
  /** The newer name of `user`. */
  safety_identifier: nullable(TEXT),
  metadata: nullable(METADATA),
  tools: nullable(Type.Array(
    Type.Object({ type: TEXT, function: Type.Optional(Type.Object({ name: TOOL_NAME, ...TOOL_FIELDS })) }),
  )),
  tool_choice: Type.Optional(TOOL_CHOICE),
  parallel_tool_calls: nullable(Type.Boolean()),
  ...SAMPLING,
  frequency_penalty: nullable(Type.Number({ minimum: -2, maximum: 2 })),
  presence_penalty: nullable(Type.Number({ minimum: -2, maximum: 2 })),
  seed: nullable(Type.Integer()),
  reasoning_effort: nullable(TEXT),
  verbosity: nullable(TEXT),
}, {
  title: "ChatCompletionRequest",
  examples: [{ model: "agent", messages: [{ role: "user", content: "Which files are there?" }] }],
});
/** Body of `POST /v1/chat/completions`, as far as the agent heeds it. */
export type ChatCompletionRequest = Static<typeof CHAT_REQUEST>;

const hasEntries = (value: unknown): boolean => Object.keys(Object(value)).length > 0;

/** Parameters of a chat-completions request that can't be ignored. */
export const UNSUPPORTED_IN_CHAT: readonly UnsupportedParameter[] = [
  { parameter: "n", refuses: (n) => n !== 1, because: "the agent gives one answer" },
  ...["functions", "function_call"].map((parameter) => ({
    parameter,
    refuses: (value: unknown) => value !== "none" && value !== "auto" && hasEntries(value),
    because: "it has given way to tools and tool_choice",
  })),
  ...REFUSED_SAMPLING,
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

/** The usage of an answer: sums over the turn's model calls. */
const CHAT_USAGE = closed({
  prompt_tokens: COUNT,
  completion_tokens: COUNT,
  total_tokens: COUNT,
  prompt_tokens_details: closed({ cached_tokens: COUNT }),
});
const FINISH_REASON = Type.Enum(["stop", "tool_calls", "length", "content_filter"]);
const CALL = {
  id: TEXT,
  type: Type.Literal("function"),
  function: closed({ name: TEXT, arguments: TEXT }),
};

/** An answer that isn't streamed: `completionBody()` of the wire writes it. */
export const CHAT_COMPLETION = Type.Unsafe<object>(closed(
  {
    id: TEXT,
    object: Type.Literal("chat.completion"),
    created: COUNT,
    model: TEXT,
    choices: Type.Array(
      closed({
        index: Type.Literal(0),
        message: closed({
          role: Type.Literal("assistant"),
          content: Type.Union([TEXT, Type.Null()]),
          refusal: Type.Null(),
          reasoning_content: Type.Optional(TEXT),
          tool_calls: Type.Optional(Type.Array(closed(CALL), { minItems: 1 })),
        }),
        finish_reason: FINISH_REASON,
        logprobs: Type.Null(),
      }),
      { minItems: 1, maxItems: 1 },
    ),
    usage: CHAT_USAGE,
  },
  "ChatCompletion",
  {
    id: "chatcmpl-0b7a4ce56c4f4c7a9a315a3f9b2d7c11",
    object: "chat.completion",
    created: 1_767_322_800,
    model: "agent",
    choices: [{
      index: 0,
      message: { role: "assistant", content: "There is README.md.", refusal: null },
      finish_reason: "stop",
      logprobs: null,
    }],
    usage: {
      prompt_tokens: 20,
      completion_tokens: 6,
      total_tokens: 26,
      prompt_tokens_details: { cached_tokens: 0 },
    },
  },
));

const CHAT_COMPLETION_CHUNK = closed({
  id: TEXT,
  object: Type.Literal("chat.completion.chunk"),
  created: COUNT,
  model: TEXT,
  choices: Type.Array(
    closed({
      index: Type.Literal(0),
      delta: closed({
        role: Type.Optional(Type.Literal("assistant")),
        content: Type.Optional(TEXT),
        reasoning_content: Type.Optional(TEXT),
        tool_calls: Type.Optional(Type.Array(closed({
          index: COUNT,
          id: Type.Optional(TEXT),
          type: Type.Optional(Type.Literal("function")),
          function: closed({ name: Type.Optional(TEXT), arguments: Type.Optional(TEXT) }),
        }))),
      }),
      finish_reason: Type.Union([FINISH_REASON, Type.Null()]),
      logprobs: Type.Null(),
    }),
    { maxItems: 1 },
  ),
  usage: Type.Optional(Type.Union([Type.Null(), CHAT_USAGE])),
}, "ChatCompletionChunk");

/** The data of each event of a streamed answer; the text `[DONE]`, which is no JSON, is the last. */
export const CHAT_COMPLETION_EVENT = Type.Union([CHAT_COMPLETION_CHUNK, API_ERROR, Type.Literal("[DONE]")]);
