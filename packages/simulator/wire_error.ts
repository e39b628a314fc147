/** What an error answer says beside its sentence. */
export interface WireErrorOptions {
  /** Kind of error, in OpenAI's words. Default: by status. */
  readonly type?: string;
  readonly code?: string;
  /** The field of the request that is at fault. */
  readonly param?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error answer of the provider, thrown to refuse a request. */
export class WireError extends Error {
  override readonly name = "WireError";
  readonly status: number;
  readonly #options: WireErrorOptions;

  constructor(status: number, message: string, options: WireErrorOptions = {}) {
    super(message);
    this.status = status;
    this.#options = options;
  }

  /** The answer on the wire, in OpenAI's shape. */
  toResponse(): Response {
    const { type = errorType(this.status), param = null, code = null, headers = {} } = this.#options;
    return Response.json({ error: { message: this.message, type, param, code } }, {
      status: this.status,
      headers,
    });
  }
}

function errorType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}
