import { chunkWriter, completionBody, type CompletionHead, writeUsage } from "@tare/wire";
import { type Route, route } from "../http/route.ts";
import type { SseMessage } from "../http/sse_response.ts";
import type { AsModelOptions } from "./as_model_routes.ts";
import {
  CHAT_COMPLETION,
  CHAT_COMPLETION_EVENT,
  CHAT_REQUEST,
  UNSUPPORTED_IN_CHAT,
} from "./chat_completions_schema.ts";
import { readChatMessages } from "./chat_messages.ts";
import { continueConversation, type ConversationTurn } from "./continue_conversation.ts";
import { API_ERRORS, TURN_ERRORS } from "./errors.ts";
import { cancelWithClient, readAnswer, SESSION_HEADER, streamTurn, tellError } from "./stream_turn.ts";
import { AGENT_MODEL, refuseUnsupported } from "./unsupported.ts";

/**
 * `POST /v1/chat/completions`: the model `agent` is the server's own loop with its own tools.
 *
 * - A request carries its whole conversation. One whose beginning is known goes on in its session; any other gets a
 *   new session. The header `tare-session` of the answer names it.
 * - System and developer messages, wherever they stand, follow the server's own instructions.
 * - The text is what the agent's model says in all steps of the turn. Its reasoning, and a line for each tool call and
 *   for each rewrite of its prompt, is `reasoning_content`, which chat pages show as thinking and other clients ignore.
 * - `usage` is what the turn cost: sums over its model calls.
 * - `max_completion_tokens` (or `max_tokens`) ends the turn after the reply that reaches it; no reply is cut. An answer
 *   that a limit ended has the finish reason `length`.
 * - The client's `tools`, sampling parameters and whatever else doesn't make an answer wrong are ignored.
 * - A client that disconnects cancels the turn: clients send a request again rather than come back to it.
 * - A turn that fails before its model has shown a sign is an HTTP error, also of a request to stream; later, an `error`
 *   ends the stream.
 */
export function chatCompletionsRoute(options: AsModelOptions): Route {
  const { onError, heartbeat, now = Date.now } = options;
  return route({
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
    errors: API_ERRORS,
    async answer({ request, body, keep }) {
      refuseUnsupported(body, UNSUPPORTED_IN_CHAT);
      const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens ?? undefined;
      const turn = await continueConversation({
        ...readChatMessages(body.messages, "messages"),
        user: body.safety_identifier ?? body.user ?? "",
        metadata: body.metadata ?? {},
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      }, options);
      cancelWithClient(turn, request);
      keep({ sessionId: turn.sessionId });
      const head: CompletionHead = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(now() / 1000),
        model: AGENT_MODEL,
      };
      if (body.stream) {
        const tellsUsage = body.stream_options?.include_usage ?? false;
        return await streamTurn(turn, { messages: chunks(turn, { head, tellsUsage, onError }), heartbeat });
      }
      return { json: await completion(turn, head), headers: { [SESSION_HEADER]: turn.sessionId } };
    },
  });
}

async function completion(turn: ConversationTurn, head: CompletionHead): Promise<object> {
  const { text, progress, finish, ledger } = await readAnswer(turn);
  await turn.remember(text);
  return completionBody(head, {
    message: {
      role: "assistant",
      content: text,
      refusal: null,
      ...(progress !== "" && { reasoning_content: progress }),
    },
    finishReason: finish,
    usage: writeUsage(ledger),
  });
}

async function* chunks(
  turn: ConversationTurn,
  { head, tellsUsage, onError }: {
    readonly head: CompletionHead;
    readonly tellsUsage: boolean;
    readonly onError: (error: unknown) => void;
  },
): AsyncGenerator<SseMessage, void> {
  const writer = chunkWriter(head, { tellsUsage });
  const message = (chunk: object): SseMessage => ({ data: JSON.stringify(chunk) });
  let part = await turn.parts.next();
  yield message(writer.delta({ role: "assistant", content: "" }));
  try {
    for (; !part.done; part = await turn.parts.next()) {
      const { type, text } = part.value;
      yield message(writer.delta(type === "text" ? { content: text } : { reasoning_content: text }));
    }
    const { text, finish, ledger } = part.value;
    await turn.remember(text);
    yield message(writer.delta({}, finish));
    if (tellsUsage) yield message(writer.usage(writeUsage(ledger)));
    yield { data: "[DONE]" };
  } catch (error) {
    yield message(tellError(error, onError));
  }
}
