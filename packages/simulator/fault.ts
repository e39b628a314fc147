import { ApiError } from "@tare/wire/internal";

/**
 * Unusual splits of tool calls into chunks:
 *
 * - `whole`: all calls in one chunk;
 * - `characters`: one UTF-16 code unit of arguments per chunk, which splits surrogate pairs;
 * - `repeated`: id and name in each chunk;
 * - `interleaved`: chunks of parallel calls alternate;
 * - `no_index`: a complete call per chunk, without its index;
 * - `no_id`: empty ids.
 */
export type ToolCallPieces = "whole" | "characters" | "repeated" | "interleaved" | "no_index" | "no_id";

export type Fault =
  /** Status 429, with the wait in `retry-after` (whole seconds, rounded up) and `retry-after-ms`. */
  | { readonly type: "rate_limit"; readonly retryAfterMs: number }
  /** An error response. Default: status 500; 401 is an invalid key. */
  | { readonly type: "error"; readonly status?: number; readonly message?: string }
  /** Status 400 with code `context_length_exceeded`. */
  | { readonly type: "prompt_too_long" }
  /**
   * The reply ends after `afterChunks` chunks of a stream (default 3), or in the middle of the body. By default the
   * connection is reset; with `quietly` it ends normally.
   */
  | { readonly type: "cut"; readonly afterChunks?: number; readonly quietly?: boolean }
  /** No data after `afterChunks` chunks (default 3; 0 if not streamed) until the client disconnects. */
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

/** Returns the error for a prompt that exceeds the model's context window. */
export function promptTooLong(why: string): ApiError {
  return new ApiError(400, `${why}. Please reduce the length of the messages.`, {
    code: "context_length_exceeded",
    param: "messages",
  });
}
