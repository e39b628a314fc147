/**
 * An error that clients of an OpenAI-compatible API may read.
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
  /** Always `ApiError`. */
  override readonly name = "ApiError";
  readonly status: number;
  /** Code, parameter and headers. */
  readonly details: {
    /** Name of the error for programs. Default: none. */
    readonly code?: string;
    /** The parameter of the request that is at fault. Default: none. */
    readonly param?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };

  /** An error with this status and sentence. */
  constructor(status: number, message: string, details: ApiError["details"] = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }

  /** What tells of it, in OpenAI's shape. */
  body(): {
    readonly error: {
      /** A sentence for people. */
      readonly message: string;
      readonly type: "invalid_request_error" | "requests" | "server_error";
      /** The parameter at fault, if it is one. */
      readonly param: string | null;
      /** Name of the error for programs. */
      readonly code: string | null;
    };
  } {
    const { status, message, details: { param = null, code = null } } = this;
    const type = status === 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
    return { error: { message, type, param, code } };
  }

  /** The response that tells of it. */
  toResponse(): Response {
    const { status, details: { headers = {} } } = this;
    return Response.json(this.body(), { status, headers });
  }
}
