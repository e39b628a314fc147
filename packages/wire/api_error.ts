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
  readonly details: {
    /** Default: none. */
    readonly code?: string;
    /** Default: none. */
    readonly param?: string;
    readonly headers?: Readonly<Record<string, string>>;
  };

  constructor(status: number, message: string, details: ApiError["details"] = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }

  body(): {
    readonly error: {
      readonly message: string;
      readonly type: "invalid_request_error" | "requests" | "server_error";
      readonly param: string | null;
      readonly code: string | null;
    };
  } {
    const { status, message, details: { param = null, code = null } } = this;
    const type = status === 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
    return { error: { message, type, param, code } };
  }

  toResponse(): Response {
    const { status, details: { headers = {} } } = this;
    return Response.json(this.body(), { status, headers });
  }
}
