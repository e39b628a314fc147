/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 * @module
 */
export { MAX_CACHE_BREAKPOINTS, readCacheBreakpoints } from "./anthropic/cache_breakpoints.ts";
export { MessageAssembler } from "./anthropic/message_assembler.ts";
export { MESSAGES_PROTOCOL } from "./anthropic/messages_protocol.ts";
export { searchBlocks } from "./anthropic/tool_search.ts";
export { MessageWriter, statusOf } from "./anthropic/write_message.ts";
export { finishedReply, MESSAGES_FORMS } from "./anthropic/write_messages_body.ts";
export { ApiError } from "./api_error.ts";
export { CHAT_PROTOCOL } from "./chat/chat_protocol.ts";
export { CHAT_FORMS, ReplyAssembler } from "./chat/chat_completions.ts";
export { CompletionWriter } from "./chat/write_completion.ts";
export { deferTools, isFunction, steadyTools } from "./client_tools.ts";
export { asRecord, findField, joinBytes, jsonExcess, readJsonAt, type Span } from "./json.ts";
export type { SchemaRules } from "./legal_schema.ts";
export { legalArguments, type LegalForms, originalCalls } from "./legality.ts";
export { statedFailure } from "./meaning.ts";
export * from "./protocol.ts";
export { PROTOCOLS } from "./protocols.ts";
export { ReplyTooLong, StreamedText } from "./sse.ts";
export {
  anchorOf,
  peekField,
  readField,
  readingRequest,
  readItems,
  readRequest,
  readWireBody,
  toolsInFront,
  underClientIds,
  withFoundTools,
  withoutThoughts,
  writeRequest,
} from "./request.ts";
export { ResponseAssembler, type ResponseBody, ResponseEventWriter } from "./responses/response.ts";
export { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";
export { RESPONSES_FORMS } from "./responses/write_responses_body.ts";
