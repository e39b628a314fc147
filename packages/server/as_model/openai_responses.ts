import { continueConversation, type ConversationTurn } from "./continue_conversation.ts";
import { OPENAI_ERRORS, OpenaiError, openaiErrorResponses, TURN_ERRORS } from "./openai_error.ts";
import type { OpenaiOptions } from "./openai_options.ts";
import { AGENT_MODEL, modelNotFound, refuseUnsupported, unsupported } from "./openai_request.ts";
import { emptyResponse, type ResponseBody } from "./openai_response.ts";
import { type ResponseEvent, responseEvents } from "./openai_response_events.ts";
import { readResponseInput } from "./openai_response_input.ts";
import {
  RESPONSE,
  RESPONSE_EVENT,
  RESPONSES_REFUSALS,
  RESPONSES_REQUEST,
  type ResponsesRequest,
} from "./openai_responses_schema.ts";
import type { Route } from "../http/route.ts";
import type { SseMessage } from "../http/sse_response.ts";
import { findResponse, type StoredResponse, storeResponse } from "./stored_response.ts";
import { cancelWithClient, SESSION_HEADER, streamTurn, tellError } from "./stream_turn.ts";

/**
 * `POST /v1/responses`: the model `agent` is the server's own loop with its own tools.
 *
 * - `previous_response_id` goes on where that response ended: in its session, or, if that has gone on since or the
 *   `instructions` differ, in a new one with the history up to there. Without it, `input` is the whole conversation, and
 *   is recognised as that of a chat completion is. The header `tare-session` of the answer names the session.
 * - `instructions`, and system and developer messages in the input, follow the server's own. They hold for one response.
 * - What the agent's model says is a message for each step. Its reasoning, and a line for each tool call, are the
 *   summary of a reasoning item.
 * - `usage` is what the turn cost: sums over its model calls.
 * - `max_output_tokens` ends the turn after the reply that reaches it; no reply is cut. A response that a limit ended is
 *   `incomplete`.
 * - The client's `tools`, sampling parameters and whatever else doesn't make an answer wrong are ignored.
 * - A client that disconnects cancels the turn. A response that was cancelled or failed isn't stored.
 * - A turn that fails before its model has shown a sign is an HTTP error, also of a request to stream; later,
 *   `response.failed` ends the stream.
 */
export function createResponseRoute(options: OpenaiOptions): Route<ResponsesRequest> {
  const { documents, onError, heartbeat, now = Date.now } = options;
  return {
    method: "POST",
    path: "/v1/responses",
    operationId: "createResponse",
    summary: "Lets the agent answer in the responses format.",
    body: RESPONSES_REQUEST,
    responses: {
      200: {
        description: "The response, as one object or streamed.",
        content: { "application/json": RESPONSE, "text/event-stream": RESPONSE_EVENT },
      },
      ...TURN_ERRORS,
    },
    errors: OPENAI_ERRORS,
    async answer({ request, body, keep }) {
      if (body.model !== AGENT_MODEL) throw modelNotFound(body.model);
      refuseUnsupported(body, RESPONSES_REFUSALS);
      const id = `resp_${crypto.randomUUID().replaceAll("-", "")}`;
      const draft = emptyResponse(body, { id, createdAtMs: now() });
      const turn = await begin(body, options);
      cancelWithClient(turn, request);
      keep({ sessionId: turn.sessionId });
      const events = responseEvents(turn.parts, {
        draft,
        now,
        ended(response, { text }) {
          turn.remember(text);
          if (response.store) storeResponse(documents, { response, point: turn.point() });
        },
      });
      if (body.stream) return await streamTurn(turn, { messages: toSse(events, onError), heartbeat });
      return Response.json(await readToEnd(events), { headers: { [SESSION_HEADER]: turn.sessionId } });
    },
  };
}

/** `GET /v1/responses/{id}`: a stored response. */
export function getResponseRoute({ documents }: Pick<OpenaiOptions, "documents">): Route {
  return {
    method: "GET",
    path: "/v1/responses/{id}",
    operationId: "getResponse",
    summary: "Gives a stored response.",
    responses: {
      200: { description: "The response.", content: { "application/json": RESPONSE } },
      ...openaiErrorResponses({
        400: "The request asks for what isn't supported.",
        404: "There is no such response.",
      }),
    },
    errors: OPENAI_ERRORS,
    answer({ request, path: { id = "" } }) {
      if (new URL(request.url).searchParams.get("stream") === "true") {
        throw unsupported("stream", "only the request that makes a response can stream it");
      }
      const stored = findResponse(documents, id);
      if (stored) return Response.json(stored.response);
      throw new OpenaiError(404, `Cannot find response ${JSON.stringify(id)}: there is none stored.`, {
        code: "response_not_found",
        param: "id",
      });
    },
  };
}

async function begin(body: ResponsesRequest, options: OpenaiOptions): Promise<ConversationTurn> {
  const { previous_response_id: previousId, max_output_tokens: maxOutputTokens } = body;
  const previous = previousId ? findPrevious(previousId, options) : undefined;
  return await continueConversation({
    ...readResponseInput(body, options.documents),
    user: body.safety_identifier ?? body.user ?? "",
    metadata: body.metadata ?? {},
    ...(previous && { after: previous.point }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
  }, options);
}

/** Status and code are those that OpenAI's clients know. */
function findPrevious(id: string, { documents }: OpenaiOptions): StoredResponse {
  const stored = findResponse(documents, id);
  if (stored) return stored;
  throw new OpenaiError(400, `Cannot follow response ${JSON.stringify(id)}: there is none stored.`, {
    code: "previous_response_not_found",
    param: "previous_response_id",
  });
}

async function readToEnd(events: AsyncGenerator<ResponseEvent, ResponseBody>): Promise<ResponseBody> {
  for (;;) {
    const { done, value } = await events.next();
    if (done) return value;
  }
}

async function* toSse(
  events: AsyncIterable<ResponseEvent>,
  onError: (error: unknown) => void,
): AsyncGenerator<SseMessage, void> {
  let begun = false;
  try {
    for await (const event of events) {
      begun = true;
      yield { event: event.type, data: JSON.stringify(event) };
    }
  } catch (error) {
    if (!begun) throw error;
    // The last event has told it.
    tellError(error, onError);
  }
}
