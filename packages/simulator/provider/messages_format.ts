import {
  ApiError,
  type JsonReader,
  MAX_CACHE_MARKS,
  messageBody,
  messageEvents,
  MESSAGES_PROTOCOL,
  readBody,
  readCacheMarks,
  readJsonAt,
  readRequest,
} from "@tare/wire";
import type { Fault } from "../fault.ts";
import { checkPairs, type CompletionRequest } from "./read_completion_request.ts";
import { textsResponse } from "./reply_response.ts";

/** A request in the Messages format, as the simulator's models are asked. */
export interface MessagesRequest extends Omit<CompletionRequest, "includeUsage"> {
  /** Up to where it asks for the prompt to be cached. */
  readonly marks: ReturnType<typeof readCacheMarks>;
}

const reader: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};

/**
 * Reads and checks a request in the Messages format: calls and their results, and how many marks of the cache it has.
 *
 * @throws {ApiError} with status 400 if a provider would refuse it.
 */
export async function readMessagesRequest(request: Request): Promise<MessagesRequest> {
  const bytes = await request.bytes();
  try {
    const wire = readRequest(readBody(bytes), MESSAGES_PROTOCOL, { items: reader, tools: reader });
    const marks = readCacheMarks(wire);
    if (marks.length > MAX_CACHE_MARKS) {
      throw new ApiError(
        400,
        `A maximum of ${MAX_CACHE_MARKS} blocks with cache_control may be provided. Found ${marks.length}.`,
      );
    }
    const messages = wire.items.flatMap(({ parts }) => parts.map(({ message }) => message));
    checkPairs(messages);
    return {
      model: wire.model,
      messages,
      tools: (wire.tools ?? []).flatMap(({ definition }) => definition ?? []),
      stream: wire.stream,
      marks,
    };
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, `Cannot read the request: ${(error as Error).message}.`);
  }
}

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
export function messagesResponse(
  reply: Parameters<typeof messageBody>[0],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const texts = stream
    ? messageEvents(reply).map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    : [JSON.stringify(messageBody(reply))];
  return textsResponse(texts, { stream, fault });
}
