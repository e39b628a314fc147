import { isStatus, STATUS_TEXT } from "@std/http/status";
import { type Keys, StoreError } from "@tare/session";
import { type Static, Type } from "typebox";
import { closed } from "./schema.ts";

export const ERROR_CODES = [
  "invalid_body",
  "invalid_json",
  "invalid_request",
  "unauthorized",
  "origin_not_allowed",
  "owner_only",
  "not_for_this_key",
  "budget_spent",
  "price_unknown",
  "rate_limit_exceeded",
  "not_found",
  "not_supported",
  "method_not_allowed",
  "turn_running",
  "nothing_to_continue",
  "nothing_to_keep_alive",
  "nothing_to_undo",
  "changed_since",
  "files_busy",
  "approval_open",
  "already_answered",
  "webhook_disabled",
  "backup_running",
  "idempotency_answer_not_stored",
  "idempotency_key_in_use",
  "idempotency_key_interrupted",
  "idempotency_key_reused",
  "body_too_large",
  "unsupported_media_type",
  "host_not_allowed",
  "too_many_turns",
  "too_much_steering",
  "headers_too_large",
  "server_ending",
  "internal_error",
  "too_many_sessions",
  "store_failed",
] as const;

export type ErrorCode = typeof ERROR_CODES[number];

export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly code: ErrorCode;
  readonly headers: Readonly<Record<string, string>>;

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

export function notFound(message: string): HttpError {
  return new HttpError(404, "not_found", message);
}

export function invalidRequest(message: string): HttpError {
  return new HttpError(400, "invalid_request", message);
}

export function notSupported(message: string): HttpError {
  return new HttpError(501, "not_supported", message);
}

export function refusedBy(
  { status, code, message, retryAfterS }: NonNullable<ReturnType<Keys["budgetRefusal"]>>,
): HttpError {
  return new HttpError(status, code, message, {
    ...(retryAfterS !== undefined && { "retry-after": String(retryAfterS) }),
  });
}

/** Returns an {@linkcode HttpError} or a store's message (507 if full), and hides other errors. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof StoreError) {
    return new HttpError(error.code === "full" ? 507 : 500, "store_failed", error.message);
  }
  return new HttpError(500, "internal_error", "Internal server error: the server's log has the details.");
}

export const ERROR = closed(
  {
    error: closed({ status: Type.Integer(), code: Type.Enum([...ERROR_CODES]), message: Type.String() }),
  },
  "Error",
  {
    error: { status: 404, code: "not_found", message: "Not found: there is no route /v2." },
  },
);

export function httpErrorBody(
  error: unknown,
): Static<typeof ERROR> {
  const { status, code, message } = toHttpError(error);
  return { error: { status, code, message } };
}

export function errorResponse(error: unknown): Response {
  const { status, headers } = toHttpError(error);
  return Response.json(httpErrorBody(error), {
    status,
    statusText: isStatus(status) ? STATUS_TEXT[status] : "",
    headers: { ...headers },
  });
}
