import { ApiError, emptyResponse, type ResponseEvent, ResponseEventWriter } from "@tare/wire";
import { errorResponses } from "../http/http_error.ts";
import { type Route, route } from "../http/route.ts";
import type { SseMessage } from "../http/sse_response.ts";
import type { AsModelOptions } from "./as_model_routes.ts";
import { continueConversation, type ConversationTurn } from "./continue_conversation.ts";
import { API_ERROR, API_ERRORS, toApiError, TURN_ERRORS } from "./errors.ts";
import { readResponseInput } from "./response_input.ts";
import {
  RESPONSE,
  RESPONSE_EVENT,
  RESPONSES_REQUEST,
  type ResponsesRequest,
  UNSUPPORTED_IN_RESPONSES,
} from "./responses_schema.ts";
import { findResponse, type StoredResponse, storedResponse } from "./stored_response.ts";
import { cancelWithClient, SESSION_HEADER, streamTurn, tellError } from "./stream_turn.ts";
import { refuseUnsupported, unsupported } from "./unsupported.ts";

/**
 * `POST /v1/responses`: the model `agent` is the server's own loop with its own tools.
 *
 * - `previous_response_id` goes on where that response ended: in its session, or, if that has gone on since or the
 *   `instructions` differ, in a new one with the history up to there. Without it, `input` is the whole conversation, and
 *   is recognised as that of a chat completion is. The header `tare-session` of the answer names the session.
 * - `instructions`, and system and developer messages in the input, follow the server's own. They hold for one response.
 * - What the agent's model says is a message for each step. Its reasoning, and a line for each tool call and for each
 *   rewrite of its prompt, are the summary of a reasoning item.
 * - `usage` is what the turn cost: sums over its model calls.
 * - `max_output_tokens` ends the turn after the reply that reaches it; no reply is cut. A response that a limit ended is
 *   `incomplete`.
 * - The client's `tools`, sampling parameters and whatever else doesn't make an answer wrong are ignored.
 * - A client that disconnects cancels the turn. A response that was cancelled or failed isn't stored.
 * - A turn that fails before its model has shown a sign is an HTTP error, also of a request to stream; later,
 *   `response.failed` ends the stream.
 */
export function createResponseRoute(options: AsModelOptions): Route {
  const { onError, heartbeat, now = Date.now } = options;
  return route({
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
    errors: API_ERRORS,
    async answer({ request, body, keep }) {
      refuseUnsupported(body, UNSUPPORTED_IN_RESPONSES);
      const id = `resp_${crypto.randomUUID().replaceAll("-", "")}`;
      const writer = new ResponseEventWriter(emptyResponse(body, { id, createdAtMs: now() }));
      const turn = await begin(body, options);
      cancelWithClient(turn, request);
      keep({ sessionId: turn.sessionId });
      const events = responseEvents(turn, { writer, now });
      if (body.stream) return await streamTurn(turn, { messages: toSse(events, onError), heartbeat });
      await Array.fromAsync(events);
      return { json: writer.response, headers: { [SESSION_HEADER]: turn.sessionId } };
    },
  });
}

/** `GET /v1/responses/{id}`: a stored response. */
export function getResponseRoute({ store }: Pick<AsModelOptions, "store">): Route {
  return route({
    method: "GET",
    path: "/v1/responses/{id}",
    operationId: "getResponse",
    summary: "Gives a stored response.",
    responses: {
      200: { description: "The response.", content: { "application/json": RESPONSE } },
      ...errorResponses({
        400: "The request asks for what isn't supported.",
        404: "There is no such response.",
      }, API_ERROR),
    },
    errors: API_ERRORS,
    async answer({ request, path: { id = "" } }) {
      if (new URL(request.url).searchParams.get("stream") === "true") {
        throw unsupported("stream", "only the request that makes a response can stream it");
      }
      const stored = await findResponse(store, id);
      if (stored) return { json: stored.response };
      throw new ApiError(404, `Cannot find response ${JSON.stringify(id)}: there is none stored.`, {
        code: "response_not_found",
        param: "id",
      });
    },
  });
}

async function begin(body: ResponsesRequest, options: AsModelOptions): Promise<ConversationTurn> {
  const { previous_response_id: previousId, max_output_tokens: maxOutputTokens } = body;
  const previous = previousId ? await findPrevious(previousId, options) : undefined;
  return await continueConversation({
    ...await readResponseInput(body, options.store),
    user: body.safety_identifier ?? body.user ?? "",
    metadata: body.metadata ?? {},
    ...(previous && { after: previous.point }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
  }, options);
}

/** Status and code are those that OpenAI's clients know. */
async function findPrevious(id: string, { store }: AsModelOptions): Promise<StoredResponse> {
  const stored = await findResponse(store, id);
  if (stored) return stored;
  throw new ApiError(400, `Cannot follow response ${JSON.stringify(id)}: there is none stored.`, {
    code: "previous_response_not_found",
    param: "previous_response_id",
  });
}

/**
 * The events of a turn's response. The first waits until the turn says something, the last until the response is stored.
 *
 * @throws {ApiError} if the turn fails; once it has said something, `response.failed` is told before.
 */
async function* responseEvents(
  turn: ConversationTurn,
  { writer, now }: { readonly writer: ResponseEventWriter; readonly now: () => number },
): AsyncGenerator<ResponseEvent, void> {
  let part = await turn.parts.next();
  yield* writer.begin();
  try {
    for (; !part.done; part = await turn.parts.next()) yield* writer.add(part.value);
  } catch (error) {
    yield* writer.fail(toApiError(error));
    throw error;
  }
  const { text, finish, ledger: usage } = part.value;
  const last = writer.end({ finish, usage, endedAtMs: now() });
  const { response } = writer;
  await turn.remember(text, response.store ? [storedResponse({ response, point: await turn.done })] : []);
  yield* last;
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
