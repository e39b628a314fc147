/**
 * An error for clients of an OpenAI-compatible API.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { ApiError } from "@tare/wire/internal";
 *
 * const error = new ApiError(404, "There is no such model.", { code: "model_not_found", param: "model" });
 * assertEquals(await error.toResponse().json(), {
 *   error: {
 *     message: "There is no such model.",
 *     type: "invalid_request_error",
 *     param: "model",
 *     code: "model_not_found",
 *   },
 * });
 * ```
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  /** Code, parameter and headers. */
  readonly details: {
    /** Machine-readable code. Default: none. */
    readonly code?: string;
    /** The request parameter at fault. Default: none. */
    readonly param?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };

  /** Creates an error with an HTTP status and a message. */
  constructor(status: number, message: string, details: ApiError["details"] = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }

  /** Returns the error in OpenAI's format. */
  body(): {
    readonly error: {
      readonly message: string;
      readonly type: "invalid_request_error" | "requests" | "server_error";
      /** The parameter at fault, if any. */
      readonly param: string | null;
      /** Machine-readable code. */
      readonly code: string | null;
    };
  } {
    const { status, message, details: { param = null, code = null } } = this;
    const type = status === 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
    return { error: { message, type, param, code } };
  }

  /** Returns the error as a response. */
  toResponse(): Response {
    const { status, details: { headers = {} } } = this;
    return Response.json(this.body(), { status, headers });
  }
}
