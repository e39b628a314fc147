import { STATUS_TEXT } from "@std/http";

/** What an error is called in the JSON body, for programs. */
export type ErrorCode =
  | "invalid_json"
  | "invalid_request"
  | "unsupported_media_type"
  | "body_too_large"
  | "not_found"
  | "method_not_allowed"
  | "turn_running"
  | "internal_error";

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
