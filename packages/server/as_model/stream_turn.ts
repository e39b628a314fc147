import type { ConversationTurn } from "./continue_conversation.ts";
import { ApiError, type ApiErrorBody } from "@tare/wire";
import { type Heartbeat, type SseMessage, sseResponse } from "../http/sse_response.ts";
import { toApiError } from "./errors.ts";
import type { TurnAnswer } from "./turn_parts.ts";

/** The header that names the session in which a turn ran. */
export const SESSION_HEADER = "tare-session";

/** Cancels a turn when the client of this request goes away. */
export function cancelWithClient(turn: ConversationTurn, { signal }: Request): void {
  if (signal.aborted) turn.cancel();
  else signal.addEventListener("abort", () => turn.cancel(), { once: true });
}

/**
 * Answers with the messages of a turn as server-sent events, once the first is there. A client that disconnects
 * cancels the turn.
 *
 * @throws What `messages` throws before its first message.
 */
export async function streamTurn(
  turn: ConversationTurn,
  { messages, heartbeat }: {
    readonly messages: AsyncGenerator<SseMessage, void>;
    readonly heartbeat: Heartbeat;
  },
): Promise<Response> {
  let first: IteratorResult<SseMessage, void> | undefined = await messages.next();
  const iterator: AsyncIterator<SseMessage, void> = {
    next() {
      if (!first) return messages.next();
      const result = Promise.resolve(first);
      first = undefined;
      return result;
    },
    return() {
      turn.cancel();
      return messages.return();
    },
  };
  const response = sseResponse({ [Symbol.asyncIterator]: () => iterator }, heartbeat);
  response.headers.set(SESSION_HEADER, turn.sessionId);
  return response;
}

/** Waits for a turn's end. @throws {ApiError} if it ends without an answer. */
export async function readAnswer({ parts }: ConversationTurn): Promise<TurnAnswer> {
  for (;;) {
    const { done, value } = await parts.next();
    if (done) return value;
  }
}

/** What a stream that has begun says of an error; `onError` is told what clients don't get to read. */
export function tellError(error: unknown, onError: (error: unknown) => void): ApiErrorBody {
  if (!(error instanceof ApiError)) onError(error);
  return toApiError(error).body();
}
