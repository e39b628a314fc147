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

export { messagesBody } from "./anthropic/write_messages_body.ts";
export { ApiError } from "./api_error.ts";
export { fromAnthropic, fromResponses, toAnthropic, toResponses } from "./converters.ts";
export { readUsage } from "./chat/usage.ts";
export { chatBody } from "./chat/write_chat_body.ts";
export { type JsonRecord, readJsonAt } from "./json.ts";
export {
  type ItemPart,
  type JsonReader,
  type ListReader,
  type Protocol,
  readRequest,
  readWireBody,
  type RequestReaders,
  type WireBody,
  type WireItem,
  type WireReply,
  type WireRequest,
  writeRequest,
} from "./protocol.ts";
export { responsesBody } from "./responses/write_responses_body.ts";
export { type LegalForms } from "./legality.ts";
export type { SchemaRules } from "./legal_schema.ts";
export { CHAT_PROTOCOL, MESSAGES_PROTOCOL, RESPONSES_PROTOCOL };
