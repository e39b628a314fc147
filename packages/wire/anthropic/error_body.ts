/** Types of errors by status. */
const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

/** What tells of an error, in an answer and in a stream. */
export interface MessagesErrorBody {
  /** Always `error`. */
  readonly type: "error";
  /** Its type, and a sentence for people. */
  readonly error: { readonly type: string; readonly message: string };
}

/** The body of an error with this status. */
export function errorBody(status: number, message: string): MessagesErrorBody {
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return { type: "error", error: { type, message } };
}

/** The status that an error of this type has; nothing for a type that says no more than that something failed. */
export function statusOf(type: unknown): number | undefined {
  const [status] = Object.entries(TYPES).find(([, name]) => name === type) ?? [];
  return status === undefined ? undefined : Number(status);
}
