/** What went wrong between us and the provider. */
export type ModelErrorCode =
  | "bad_key"
  | "no_such_model"
  | "prompt_too_long"
  | "rate_limited"
  | "unreachable"
  | "bad_request"
  | "bad_response"
  | "provider_error";

/** A failed model request, told apart by {@linkcode ModelError.code}. */
export class ModelError extends Error {
  /** Always `ModelError`. */
  override readonly name = "ModelError";
  readonly code: ModelErrorCode;
  /** How long the provider asks us to wait, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The setting of the request that is at fault, if it is one. */
  readonly param?: string;

  /** Makes an error whose message is one sentence for people. */
  constructor(
    code: ModelErrorCode,
    message: string,
    options: { readonly retryAfterMs?: number; readonly param?: string; readonly cause?: unknown } = {},
  ) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
    if (options.param !== undefined) this.param = options.param;
  }
}
