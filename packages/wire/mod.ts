/**
 * Model calls as they stand on the wire: a folder for each protocol that knows how its requests, replies and errors are
 * read and written. A request is read with the places of its parts, so that it can be written again with other messages
 * and all its other bytes as they were.
 *
 * @example Take an old result out of a request, and leave its other bytes alone
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { CHAT_PROTOCOL, type JsonReader, readBody, readJsonAt, readRequest, writeRequest } from "@tare/wire";
 *
 * const reader: JsonReader<never> = {
 *   read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) }),
 * };
 * const body = '{"model":"m","top_p":1.0,"messages":[{"role":"tool","tool_call_id":"c","content":"long"}]}';
 * const request = readRequest(readBody(new TextEncoder().encode(body)), CHAT_PROTOCOL, {
 *   items: reader,
 *   tools: reader,
 * });
 * const { items } = request;
 * const messages = items.flatMap(({ parts }) => parts.map(({ message }) => ({ ...message, content: "[elided]" })));
 * const bytes = writeRequest(request, { items, messages, places: [0], tools: [] });
 * assertEquals(new TextDecoder().decode(bytes), body.replace("long", "[elided]"));
 * ```
 *
 * @module
 */
import { CHAT_PROTOCOL } from "./chat/chat_protocol.ts";
import type { Protocol } from "./protocol.ts";
import { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";

/** All protocols. */
export const PROTOCOLS: readonly Protocol[] = [CHAT_PROTOCOL, RESPONSES_PROTOCOL];

export * from "./anchor_of.ts";
export * from "./api_error.ts";
export * from "./chat/chat_protocol.ts";
export * from "./chat/merge_delta.ts";
export * from "./chat/usage.ts";
export * from "./chat/reply_assembler.ts";
export * from "./chat/write_completion.ts";
export * from "./edit_json.ts";
export * from "./json_record.ts";
export * from "./json_spans.ts";
export * from "./protocol.ts";
export * from "./read_request.ts";
export * from "./responses/responses_protocol.ts";
export * from "./responses/write_response.ts";
export * from "./sse_splitter.ts";
export * from "./sum_usage.ts";
export * from "./write_request.ts";
