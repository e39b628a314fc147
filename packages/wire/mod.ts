/**
 * Model calls as they stand on the wire: a folder for each protocol that knows how its requests, replies and errors are
 * read and written. A request is read with the places of its parts, so that it can be written again with other messages
 * and all its other bytes as they were.
 *
 * README.md shows it in use.
 *
 * @module
 */
import { CHAT_PROTOCOL } from "./chat/chat_protocol.ts";
import { MESSAGES_PROTOCOL } from "./anthropic/messages_protocol.ts";
import type { Protocol } from "./protocol.ts";
import { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";

/** All protocols. */
export const PROTOCOLS: readonly Protocol[] = [CHAT_PROTOCOL, RESPONSES_PROTOCOL, MESSAGES_PROTOCOL];

export { MessageWriter, statusOf } from "./anthropic/write_message.ts";
export { searchBlocks } from "./anthropic/tool_search.ts";
export { MAX_CACHE_MARKS, readCacheMarks } from "./anthropic/cache_marks.ts";
export { MessageAssembler } from "./anthropic/message_assembler.ts";
export { finishedReply, MESSAGES_FORMS, messagesBody } from "./anthropic/write_messages_body.ts";
export { ApiError } from "./api_error.ts";
export { fromAnthropic, fromResponses, toAnthropic, toResponses } from "./converters.ts";
export { ReplyAssembler } from "./chat/reply_assembler.ts";
export { readUsage } from "./chat/usage.ts";
export { CHAT_FORMS, chatBody } from "./chat/write_chat_body.ts";
export { CompletionWriter } from "./chat/write_completion.ts";
export { deferTools, isFunction, steadyTools } from "./client_tools.ts";
export { asRecord, joinBytes, jsonExcess, type JsonRecord, readJsonAt } from "./json.ts";
export {
  anchorOf,
  type ItemPart,
  type JsonReader,
  type ListReader,
  peekField,
  type Protocol,
  readField,
  readingRequest,
  readItems,
  readRequest,
  readWireBody,
  type RequestReaders,
  toolsInFront,
  underClientIds,
  UnknownShape,
  type WireBody,
  type WireItem,
  type WireReply,
  type WireRequest,
  withFoundTools,
  withoutThoughts,
  writeRequest,
} from "./protocol.ts";
export { ReplyTooLong, StreamedText } from "./reply_stream.ts";
export { ResponseAssembler, type ResponseBody, ResponseEventWriter } from "./responses/response.ts";
export { RESPONSES_FORMS, responsesBody } from "./responses/write_responses_body.ts";
export { legalArguments, type LegalForms, originalCalls } from "./legality.ts";
export type { SchemaRules } from "./legal_schema.ts";
export { statedFailure } from "./meaning.ts";
export { CHAT_PROTOCOL, MESSAGES_PROTOCOL, RESPONSES_PROTOCOL };
