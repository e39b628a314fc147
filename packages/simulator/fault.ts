import { ApiError } from "@tare/wire/internal";

/**
 * Odd ways in which providers cut tool calls into pieces:
 *
 * - `whole`: all calls complete in one chunk;
 * - `characters`: arguments one UTF-16 code unit at a time, so that surrogate pairs are split;
 * - `repeated`: id and name come again with each piece;
 * - `interleaved`: pieces of parallel calls take turns;
 * - `no_index`: complete calls, one a chunk, that don't say which they are;
 * - `no_id`: ids are empty.
 */
export type ToolCallPieces = "whole" | "characters" | "repeated" | "interleaved" | "no_index" | "no_id";

/** One way in which a provider misbehaves with one request, as plain data. */
export type Fault =
  /** Status 429, with the wait in `retry-after` (whole seconds, rounded up) and `retry-after-ms`. */
  | { readonly type: "rate_limit"; readonly retryAfterMs: number }
  /** An error answer of any status, 500 unless told otherwise; 401 is a bad key. */
  | { readonly type: "error"; readonly status?: number; readonly message?: string }
  /** Status 400 with code `context_length_exceeded`. */
  | { readonly type: "prompt_too_long" }
  /**
   * The reply breaks off: after so many chunks of a stream (default 3), or in the middle of the body otherwise.
   * By default the connection is reset; with `quietly` it ends as if all were said.
   */
  | { readonly type: "cut"; readonly afterChunks?: number; readonly quietly?: boolean }
  /** After so many chunks (default 3; none if not streamed) nothing more comes until the client gives up. */
  | { readonly type: "stall"; readonly afterChunks?: number }
  /** The arguments of each tool call lack their last character. */
  | { readonly type: "malformed_arguments" }
  | { readonly type: "no_usage" }
  | { readonly type: "odd_tool_calls"; readonly pieces: ToolCallPieces };

export function faultError(fault: Fault | null | undefined): ApiError | undefined {
  switch (fault?.type) {
    case "rate_limit": {
      const seconds = Math.ceil(fault.retryAfterMs / 1000);
      return new ApiError(429, `Rate limit reached: try again in ${fault.retryAfterMs} ms.`, {
        code: "rate_limit_exceeded",
        headers: { "retry-after": String(seconds), "retry-after-ms": String(fault.retryAfterMs) },
      });
    }
    case "error": {
      const status = fault.status ?? 500;
      const message = fault.message ?? `The simulated provider fails on demand with status ${status}.`;
      return new ApiError(status, message, status === 401 ? { code: "invalid_api_key" } : {});
    }
    case "prompt_too_long":
      return promptTooLong("The prompt is too long for this model");
    default:
      return undefined;
  }
}

/** The error answer to a prompt that doesn't fit the model's window. */
export function promptTooLong(why: string): ApiError {
  return new ApiError(400, `${why}. Please reduce the length of the messages.`, {
    code: "context_length_exceeded",
    param: "messages",
  });
}
