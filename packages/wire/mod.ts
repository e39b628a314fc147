/**
 * The protocols of model calls as they stand on the wire.
 *
 * @module
 */
export * from "./anchor_of.ts";
export * from "./api_error.ts";
export * from "./chat/chat_format.ts";
export * from "./chat/chat_writer.ts";
export * from "./chat/merge_delta.ts";
export * from "./chat/usage.ts";
export * from "./chat/reply_assembler.ts";
export * from "./chat/write_completion.ts";
export * from "./json_record.ts";
export * from "./json_spans.ts";
export * from "./responses/responses_format.ts";
export * from "./responses/responses_writer.ts";
export * from "./responses/write_response.ts";
export * from "./sse_splitter.ts";
export * from "./sum_usage.ts";
export * from "./wire_format.ts";
export * from "./wire_request.ts";
