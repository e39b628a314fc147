import type { AssistantMessage, Message, ToolDefinition, Usage } from "@tare/messages";

/** One request to a model. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  /** Aborting it stops the request. */
  readonly signal: AbortSignal;
}

/** Why the model stopped writing. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

/** What a model streams. The last event of a reply is `completed`; everything before is for those who watch. */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly text: string }
  | {
    readonly type: "tool_call_delta";
    /** Position of the call in the reply. */
    readonly index: number;
    readonly id?: string;
    readonly name?: string;
    readonly arguments?: string;
  }
  | {
    readonly type: "completed";
    /** The whole reply, with every field that the provider sent. Its tool calls have ids that are unique and not empty. */
    readonly message: AssistantMessage;
    readonly finishReason: FinishReason;
    /** Absent if the provider sent none. */
    readonly usage?: Usage;
  };

/** The model port: one call of it is one request. Throws {@linkcode ModelError} when the provider fails. */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;

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
  override readonly name = "ModelError";
  readonly code: ModelErrorCode;
  /** How long the provider asks us to wait, in milliseconds. */
  readonly retryAfterMs?: number;

  constructor(
    code: ModelErrorCode,
    message: string,
    options: { readonly retryAfterMs?: number; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    if (options.retryAfterMs !== undefined) this.retryAfterMs = options.retryAfterMs;
  }
}
