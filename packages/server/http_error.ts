import { STATUS_TEXT } from "@std/http";

/** What each error is called in the JSON body, for programs. */
export const ERROR_CODES = [
  "invalid_json",
  "invalid_request",
  "unauthorized",
  "origin_not_allowed",
  "not_found",
  "method_not_allowed",
  "turn_running",
  "idempotency_key_in_use",
  "idempotency_key_interrupted",
  "idempotency_key_reused",
  "body_too_large",
  "unsupported_media_type",
  "host_not_allowed",
  "too_many_turns",
  "headers_too_large",
  "internal_error",
  "too_many_sessions",
] as const;

/** What an error is called in the JSON body, for programs. */
export type ErrorCode = typeof ERROR_CODES[number];

/** An error that a client may read. Its message is a sentence that says what was wrong and what would be right. */
export class HttpError extends Error {
  /** Always `HttpError`. */
  override readonly name = "HttpError";
  /** HTTP status. */
  readonly status: number;
  /** Name of the error for programs. */
  readonly code: ErrorCode;
  /** Further response headers. */
  readonly headers: Readonly<Record<string, string>>;

  /** An error with this status, code and sentence. */
  constructor(
    status: number,
    code: ErrorCode,
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/**
 * The one JSON shape of every error, `{"error": {"status", "code", "message"}}`. The message of an error that isn't
 * an {@linkcode HttpError} is hidden.
 */
export function errorResponse(error: unknown): Response {
  const { status, code, message, headers } = error instanceof HttpError
    ? error
    : new HttpError(500, "internal_error", "The server met an unexpected error; its log says more.");
  return Response.json({ error: { status, code, message } }, {
    status,
    statusText: STATUS_TEXT[status] ?? "",
    headers: { ...headers },
  });
}
