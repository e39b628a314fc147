import type { TurnLedger } from "@tare/loop";
import {
  CHAT_COMPLETION,
  CHAT_COMPLETION_EVENT,
  CHAT_REFUSALS,
  CHAT_REQUEST,
  type ChatRequest,
} from "./chat_completions_schema.ts";
import { readChatMessages } from "./chat_messages.ts";
import { continueConversation, type ConversationTurn } from "./continue_conversation.ts";
import { OPENAI_ERRORS, TURN_ERRORS } from "./openai_error.ts";
import type { OpenaiOptions } from "./openai_options.ts";
import { AGENT_MODEL, modelNotFound, refuseUnsupported } from "./openai_request.ts";
import type { Route } from "../http/route.ts";
import type { SseMessage } from "../http/sse_response.ts";
import { cancelWithClient, readTurn, SESSION_HEADER, streamTurn, tellError } from "./stream_turn.ts";

/** What the answer and each of its chunks carry. */
interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

/**
 * `POST /v1/chat/completions`: the model `agent` is the server's own loop with its own tools.
 *
 * - A request carries its whole conversation. One whose beginning is known goes on in its session; any other gets a
 *   new session. The header `tare-session` of the answer names it.
 * - System and developer messages, wherever they stand, follow the server's own instructions.
 * - The text is what the agent's model says in all steps of the turn. Its reasoning, and a line for each tool call, is
 *   `reasoning_content`, which chat pages show as thinking and other clients ignore.
 * - `usage` is what the turn cost: sums over its model calls.
 * - `max_completion_tokens` (or `max_tokens`) ends the turn after the reply that reaches it; no reply is cut. An answer
 *   that a limit ended has the finish reason `length`.
 * - The client's `tools`, sampling parameters and whatever else doesn't make an answer wrong are ignored.
 * - A client that disconnects cancels the turn: clients send a request again rather than come back to it.
 * - A turn that fails before its model has shown a sign is an HTTP error, also of a request to stream; later, an `error`
 *   ends the stream.
 */
export function chatCompletionsRoute(options: OpenaiOptions): Route<ChatRequest> {
  const { onError, heartbeat, now = Date.now } = options;
  return {
    method: "POST",
    path: "/v1/chat/completions",
    operationId: "createChatCompletion",
    summary: "Lets the agent answer a conversation in the chat-completions format.",
    body: CHAT_REQUEST,
    responses: {
      200: {
        description: "The answer, as one object or streamed.",
        content: { "application/json": CHAT_COMPLETION, "text/event-stream": CHAT_COMPLETION_EVENT },
      },
      ...TURN_ERRORS,
    },
    errors: OPENAI_ERRORS,
    async answer({ request, body, keep }) {
      if (body.model !== AGENT_MODEL) throw modelNotFound(body.model);
      refuseUnsupported(body, CHAT_REFUSALS);
      const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens ?? undefined;
      const turn = await continueConversation({
        ...readChatMessages(body.messages, "messages"),
        user: body.safety_identifier ?? body.user ?? "",
        metadata: body.metadata ?? {},
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      }, options);
      cancelWithClient(turn, request);
      keep({ sessionId: turn.sessionId });
      const envelope: Envelope = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(now() / 1000),
        model: AGENT_MODEL,
      };
      if (body.stream) {
        const includeUsage = body.stream_options?.include_usage ?? false;
        const messages = chunks(turn, { envelope, includeUsage, onError });
        return await streamTurn(turn, { messages, heartbeat });
      }
      return Response.json(await completion(turn, envelope), {
        headers: { [SESSION_HEADER]: turn.sessionId },
      });
    },
  };
}

async function completion(turn: ConversationTurn, { id, created, model }: Envelope): Promise<object> {
  const { text, progress, finish, ledger } = await readTurn(turn);
  turn.remember(text);
  const message = {
    role: "assistant",
    content: text,
    refusal: null,
    ...(progress !== "" && { reasoning_content: progress }),
  };
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, finish_reason: finish, logprobs: null }],
    usage: chatUsage(ledger),
  };
}

async function* chunks(
  turn: ConversationTurn,
  { envelope, includeUsage, onError }: {
    readonly envelope: Envelope;
    readonly includeUsage: boolean;
    readonly onError: (error: unknown) => void;
  },
): AsyncGenerator<SseMessage, void> {
  const { id, created, model } = envelope;
  const chunk = (choices: readonly object[], usage: object | null): SseMessage => ({
    data: JSON.stringify({
      id,
      object: "chat.completion.chunk",
      created,
      model,
      choices,
      ...(includeUsage && { usage }),
    }),
  });
  const choice = (delta: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta, finish_reason, logprobs: null }], null);

  let part = await turn.parts.next();
  yield choice({ role: "assistant", content: "" });
  try {
    for (; !part.done; part = await turn.parts.next()) {
      const { type, text } = part.value;
      yield choice(type === "text" ? { content: text } : { reasoning_content: text });
    }
    const { text, finish, ledger } = part.value;
    turn.remember(text);
    yield choice({}, finish);
    if (includeUsage) yield chunk([], chatUsage(ledger));
    yield { data: "[DONE]" };
  } catch (error) {
    yield { data: JSON.stringify(tellError(error, onError)) };
  }
}

function chatUsage({ promptTokens, cachedTokens, outputTokens }: TurnLedger): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}
