import { type Content, contentText, type FunctionToolCall, type ToolCall } from "@tare/messages";
import { CompletionWriter } from "@tare/wire/internal";
import type { SseMessage } from "@tare/wire/internal/sse";
import { type Static, Type } from "typebox";
import { USER_CONTENT } from "../api/message_schemas.ts";
import { route } from "../http/route.ts";
import { closed, COUNT, METADATA, nullable, tagged, textOr } from "../http/schema.ts";
import {
  type ClientToolFields,
  readToolFields,
  SAMPLING,
  TOOL_CHOICE,
  TOOL_FIELDS,
  TOOL_NAME,
  type ToolFields,
} from "./client_tools.ts";
import { type AsModelOptions, continueConversation } from "./continue_conversation.ts";
import {
  AGENT_MODEL,
  API_ERROR,
  API_ERRORS,
  invalid,
  REFUSED_SAMPLING,
  refuseUnsupported,
  TURN_ERRORS,
  unsupported,
  type UnsupportedParameter,
  unusable,
} from "./errors.ts";
import type { DialogueMessage } from "./known_conversations.ts";
import {
  cancelWithClient,
  type ConversationTurn,
  readAnswer,
  SESSION_HEADER,
  streamError,
  streamTurn,
} from "./turn_answer.ts";

type CompletionHead = ConstructorParameters<typeof CompletionWriter>[0];

/**
 * Returns `POST /v1/chat/completions`: the model `agent` is the server's own loop and tools.
 * - A conversation with a known start continues in its session; others get a new one. The header `tare-session` names
 * it.
 * - System and developer messages follow the server's own instructions.
 * - The content is the model's text of all steps. `reasoning_content` is its reasoning, with a line per tool call and
 * prompt rewrite.
 * - `usage` is the total of the turn's model calls.
 * - `max_completion_tokens` (or `max_tokens`) ends the turn after the reply that reaches it; no reply is cut.
 * - A call of one of the client's `tools` ends the turn after the agent's own calls of that step. The next request
 * continues with the results. `tool_choice` concerns only the client's tools.
 * - Sampling settings, `reasoning_effort`, `verbosity` and `parallel_tool_calls` are forwarded. Parameters whose loss
 * would make an answer wrong are refused; the rest is ignored.
 * - A disconnect cancels the turn.
 * - A turn that fails before its model responds is an HTTP error; later, an `error` ends the stream.
 */
export function chatCompletionsRoute(options: AsModelOptions) {
  const { onError, heartbeat, store } = options;
  return route({
    method: "POST",
    path: "/v1/chat/completions",
    operationId: "createChatCompletion",
    summary: "Answers a conversation in the chat-completions format.",
    begins: true,
    body: CHAT_REQUEST,
    responses: {
      200: {
        description: "The answer, as one object or as a stream.",
        content: { "application/json": CHAT_COMPLETION, "text/event-stream": CHAT_COMPLETION_EVENT },
      },
      ...TURN_ERRORS,
    },
    errors: API_ERRORS,
    async answer({ signal, body, keep, caller }) {
      refuseUnsupported(body, UNSUPPORTED_IN_CHAT);
      const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens ?? undefined;
      const turn = await continueConversation({
        ...readToolFields(fieldsOf(body), options.sessions.takenNames),
        ...readChatMessages(body.messages, { parameter: "messages" }),
        user: body.safety_identifier ?? body.user ?? "",
        metadata: body.metadata ?? {},
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      }, { ...options, caller });
      cancelWithClient(turn, signal);
      keep({ sessionId: turn.sessionId });
      const head: CompletionHead = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(store.now() / 1000),
        model: AGENT_MODEL,
      };
      if (body.stream) {
        const reportsUsage = body.stream_options?.include_usage ?? false;
        return await streamTurn(turn, { messages: chunks(turn, { head, reportsUsage, onError }), heartbeat });
      }
      return { json: await completion(turn, head), headers: { [SESSION_HEADER]: turn.sessionId } };
    },
  });
}

function fieldsOf({ tools, tool_choice: choice, ...body }: ChatCompletionRequest): ToolFields {
  const { temperature, top_p, frequency_penalty, presence_penalty, seed, ...more } = body;
  const { reasoning_effort, verbosity, parallel_tool_calls } = more;
  const { name } = Object(Object(choice).function) as { readonly name?: unknown };
  return {
    tools: (tools ?? []).map((tool) => ({
      type: tool.type,
      spec: tool.function as ClientToolFields["spec"],
    })),
    toolChoice: typeof choice === "object" && choice
      ? typeof name === "string" ? { name } : ""
      : choice ?? undefined,
    settings: {
      ...{ temperature, top_p, frequency_penalty, presence_penalty, seed },
      ...{ reasoning_effort, verbosity, parallel_tool_calls },
    },
  };
}

async function completion(
  turn: ConversationTurn,
  head: CompletionHead,
): Promise<object> {
  const answer = await readAnswer(turn);
  const { text, progress, calls, finish, ledger } = answer;
  await turn.remember(answer);
  return new CompletionWriter(head).body({
    message: {
      role: "assistant",
      content: text === "" && calls.length > 0 ? null : text,
      refusal: null,
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(progress !== "" && { reasoning_content: progress }),
    },
    finishReason: finish,
    usage: ledger,
  });
}

async function* chunks(
  turn: ConversationTurn,
  { head, reportsUsage, onError }: {
    readonly head: CompletionHead;
    readonly reportsUsage: boolean;
    readonly onError: (error: unknown) => void;
  },
): AsyncGenerator<SseMessage, void> {
  const writer = new CompletionWriter(head, { reportsUsage });
  const message = (chunk: object): SseMessage => ({ data: JSON.stringify(chunk) });
  let part = await turn.parts.next();
  yield message(writer.delta({ role: "assistant", content: "" }));
  try {
    for (; !part.done; part = await turn.parts.next()) {
      const { type, text } = part.value;
      yield message(writer.delta(type === "text" ? { content: text } : { reasoning_content: text }));
    }
    const { calls, finish, ledger } = part.value;
    await turn.remember(part.value);
    for (const tool_calls of CompletionWriter.callDeltas(calls)) yield message(writer.delta({ tool_calls }));
    yield message(writer.delta({}, finish));
    for (const chunk of writer.usage(ledger)) yield message(chunk);
    yield { data: "[DONE]" };
  } catch (error) {
    yield message(streamError(error, onError));
  }
}

export interface Dialogue {
  readonly instructions: string;
  /**
   * Messages of the user and agent, and results of the client's tools; the agent's are merged, the last is another's.
   */
  readonly dialogue: readonly DialogueMessage[];
}

/**
 * Reads a conversation in the chat-completions format.
 * @param options.parameter Name of the request's parameter, for errors.
 * @param options.open Ids of earlier calls without a result. Default: none.
 * @throws {ApiError} 400 if results don't directly follow their calls, or the agent's message is last.
 */
export function readChatMessages(
  messages: readonly ChatMessage[],
  { parameter, open = [] }: { readonly parameter: string; readonly open?: readonly string[] },
): Dialogue {
  const instructions: string[] = [];
  const dialogue: DialogueMessage[] = [];
  let waiting: readonly string[] = open;
  const checkAnswered = () => {
    if (waiting.length === 0) return;
    const ids = waiting.map((id) => JSON.stringify(id)).join(", ");
    const state = `the result of ${ids} is missing; results must directly follow their calls`;
    throw invalid(parameter, `Cannot answer: ${state}.`);
  };
  for (const [index, message] of messages.entries()) {
    const { role, content, tool_call_id: id = "" } = message;
    const place = `${parameter}[${index}]`;
    if (role === "function" || "function_call" in message && message.function_call) {
      throw unsupported(
        place,
        "functions were replaced by tools: send tool_calls, and results with role tool",
      );
    }
    switch (role) {
      case "user":
        checkAnswered();
        dialogue.push({ role, content: content ?? "" });
        break;
      case "tool":
        if (!waiting.includes(id)) {
          const state = `it is the result of call ${JSON.stringify(id)}, which is not open there`;
          throw unusable(place, state);
        }
        waiting = waiting.filter((one) => one !== id);
        dialogue.push({ role, tool_call_id: id, content: content ?? "" });
        break;
      case "assistant": {
        const calls = functionCalls(message.tool_calls ?? [], place);
        if (dialogue.at(-1)?.role !== "assistant") checkAnswered();
        addAnswer(dialogue, contentText(content) || (message.refusal ?? ""), calls);
        waiting = [...waiting, ...calls.map(({ id }) => id)];
        break;
      }
      default:
        instructions.push(contentText(content));
    }
  }
  checkAnswered();
  const last = dialogue.at(-1)?.role;
  if (last !== "user" && last !== "tool") {
    const right = "must be the user's or the result of a call";
    throw invalid(parameter, `Cannot answer: the last of the ${parameter} ${right}.`);
  }
  return { instructions: instructions.filter((text) => text !== "").join("\n\n"), dialogue };
}

function functionCalls(calls: readonly ToolCall[], place: string): readonly FunctionToolCall[] {
  return calls.map((call, index) => {
    if (call.type === "function") return call;
    throw unsupported(`${place}.tool_calls[${index}]`, "the agent accepts only calls of functions");
  });
}

/** Appends an answer. Providers refuse empty ones, and some clients split them. */
function addAnswer(dialogue: DialogueMessage[], text: string, calls: readonly FunctionToolCall[]): void {
  if (text.trim() === "" && calls.length === 0) return;
  const before = dialogue.at(-1);
  const continues = before?.role === "assistant";
  const allCalls = [...(continues ? before.tool_calls ?? [] : []), ...calls];
  const whole: DialogueMessage = {
    role: "assistant",
    content: continues ? contentText(before.content) + text : text,
    ...(allCalls.length > 0 && { tool_calls: allCalls }),
  };
  dialogue.splice(continues ? -1 : dialogue.length, continues ? 1 : 0, whole);
}

export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  readonly content?: Content | null;
  readonly refusal?: string | null;
  readonly tool_calls?: readonly ToolCall[] | null;
  readonly tool_call_id?: string;
}

const TEXT = Type.String();
const TEXT_PARTS = textOr(
  tagged("type", { text: Type.Object({ text: TEXT }), refusal: Type.Object({ refusal: TEXT }) }),
);
const INSTRUCTIONS = Type.Object({ content: TEXT_PARTS });

/** Body of `POST /v1/chat/completions`. Other properties are ignored. */
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
  /** Output tokens after which no further model call is made. */
  max_completion_tokens: nullable(Type.Integer({ minimum: 1 })),
  /** Older name. */
  max_tokens: nullable(Type.Integer({ minimum: 1 })),
  /** Separates conversations. */
  user: nullable(TEXT),
  /** Newer name. */
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
type ChatCompletionRequest = Static<typeof CHAT_REQUEST>;

const hasEntries = (value: unknown): boolean => Object.keys(Object(value)).length > 0;

export const UNSUPPORTED_IN_CHAT: readonly UnsupportedParameter[] = [
  { parameter: "n", refuses: (n) => n !== 1, because: "the agent returns one answer" },
  ...["functions", "function_call"].map((parameter) => ({
    parameter,
    refuses: (value: unknown) => value !== "none" && value !== "auto" && hasEntries(value),
    because: "it was replaced by tools and tool_choice",
  })),
  ...REFUSED_SAMPLING,
  {
    parameter: "response_format",
    refuses: (format) => (format as { readonly type?: unknown }).type !== "text",
    because: "the agent answers in plain text",
  },
  { parameter: "logprobs", refuses: (value) => value !== false, because: "the agent returns none" },
  { parameter: "top_logprobs", refuses: (value) => value !== 0, because: "the agent returns none" },
  { parameter: "logit_bias", refuses: hasEntries, because: "the agent's model accepts none" },
  { parameter: "stop", refuses: hasEntries, because: "the agent's answers don't end at a given text" },
  { parameter: "audio", refuses: () => true, because: "the agent answers in text" },
  {
    parameter: "modalities",
    refuses: (value) => !(Array.isArray(value) && value.every((one) => one === "text")),
    because: "the agent answers in text",
  },
  { parameter: "web_search_options", refuses: () => true, because: "the agent searches with its own tools" },
];

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

const CHAT_COMPLETION = Type.Unsafe<object>(closed(
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

/** Event data of a streamed answer; `[DONE]` is last. */
const CHAT_COMPLETION_EVENT = Type.Union([CHAT_COMPLETION_CHUNK, API_ERROR, Type.Literal("[DONE]")]);
