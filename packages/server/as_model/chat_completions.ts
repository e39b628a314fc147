import { chunkWriter, completionBody, toolCallDeltas, writeUsage } from "@tare/wire";
import { route } from "../http/route.ts";
import type { SseMessage } from "../http/sse_response.ts";
import {
  CHAT_COMPLETION,
  CHAT_COMPLETION_EVENT,
  CHAT_REQUEST,
  type ChatCompletionRequest,
  UNSUPPORTED_IN_CHAT,
} from "./chat_completions_schema.ts";
import { readChatMessages } from "./chat_messages.ts";
import { type AskedFields, type AskedTool, readAsked } from "./client_tools.ts";
import { type AsModelOptions, continueConversation } from "./continue_conversation.ts";
import { AGENT_MODEL, API_ERRORS, refuseUnsupported, TURN_ERRORS } from "./errors.ts";
import {
  cancelWithClient,
  type ConversationTurn,
  readAnswer,
  SESSION_HEADER,
  streamTurn,
  tellError,
} from "./turn_answer.ts";

type CompletionHead = Parameters<typeof completionBody>[0];

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
 * - A call of one of the client's `tools` ends the turn with the finish reason `tool_calls`, once the agent's own calls
 *   of that step have run; the next request goes on with the results. `tool_choice` is about the client's tools: a turn
 *   that must call goes on until it calls one of them.
 * - Temperature, `top_p`, penalties, seed, `reasoning_effort`, `verbosity` and `parallel_tool_calls` go to the provider.
 *   What its protocol hasn't, and what else would make an answer wrong, is refused by name; the rest is ignored.
 * - A client that disconnects cancels the turn: clients send a request again rather than come back to it.
 * - A turn that fails before its model has shown a sign is an HTTP error, also of a request to stream; later, an `error`
 *   ends the stream.
 */
export function chatCompletionsRoute(options: AsModelOptions) {
  const { onError, heartbeat, store } = options;
  return route({
    method: "POST",
    path: "/v1/chat/completions",
    operationId: "createChatCompletion",
    summary: "Lets the agent answer a conversation in the chat-completions format.",
    begins: true,
    body: CHAT_REQUEST,
    responses: {
      200: {
        description: "The answer, as one object or streamed.",
        content: { "application/json": CHAT_COMPLETION, "text/event-stream": CHAT_COMPLETION_EVENT },
      },
      ...TURN_ERRORS,
    },
    errors: API_ERRORS,
    async answer({ request, body, keep, asker }) {
      refuseUnsupported(body, UNSUPPORTED_IN_CHAT);
      const maxOutputTokens = body.max_completion_tokens ?? body.max_tokens ?? undefined;
      const turn = await continueConversation({
        ...readAsked(askedFields(body), options.sessions.takenNames),
        ...readChatMessages(body.messages, { parameter: "messages" }),
        user: body.safety_identifier ?? body.user ?? "",
        metadata: body.metadata ?? {},
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
      }, { ...options, asker });
      cancelWithClient(turn, request);
      keep({ sessionId: turn.sessionId });
      const head: CompletionHead = {
        id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
        created: Math.floor(store.now() / 1000),
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

function askedFields({ tools, tool_choice: choice, ...body }: ChatCompletionRequest): AskedFields {
  const { temperature, top_p, frequency_penalty, presence_penalty, seed, ...more } = body;
  const { reasoning_effort, verbosity, parallel_tool_calls } = more;
  const { name } = Object(Object(choice).function) as { readonly name?: unknown };
  return {
    tools: (tools ?? []).map((tool) => ({ type: tool.type, shown: tool.function as AskedTool["shown"] })),
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
  return completionBody(head, {
    message: {
      role: "assistant",
      content: text === "" && calls.length > 0 ? null : text,
      refusal: null,
      ...(calls.length > 0 && { tool_calls: calls }),
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
    const { calls, finish, ledger } = part.value;
    await turn.remember(part.value);
    for (const tool_calls of toolCallDeltas(calls)) yield message(writer.delta({ tool_calls }));
    yield message(writer.delta({}, finish));
    if (tellsUsage) yield message(writer.usage(writeUsage(ledger)));
    yield { data: "[DONE]" };
  } catch (error) {
    yield message(tellError(error, onError));
  }
}
