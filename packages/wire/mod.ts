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

export * from "./anchor_of.ts";
export * from "./anthropic/cache_marks.ts";
export * from "./anthropic/error_body.ts";
export * from "./anthropic/message_assembler.ts";
export * from "./anthropic/messages_protocol.ts";
export * from "./anthropic/messages_settings.ts";
export * from "./anthropic/write_message.ts";
export { messagesBody } from "./anthropic/write_messages_body.ts";
export * from "./api_error.ts";
export * from "./body_pieces.ts";
export * from "./chat/chat_protocol.ts";
export * from "./chat/merge_delta.ts";
export * from "./chat/usage.ts";
export * from "./chat/reply_assembler.ts";
export * from "./chat/write_completion.ts";
export * from "./edit_json.ts";
export * from "./growing_bytes.ts";
export * from "./json_record.ts";
export * from "./json_shape.ts";
export * from "./json_spans.ts";
export * from "./protocol.ts";
export * from "./read_request.ts";
export * from "./reply_limits.ts";
export * from "./responses/responses_protocol.ts";
export * from "./responses/write_response.ts";
export * from "./sse_splitter.ts";
export * from "./write_request.ts";
