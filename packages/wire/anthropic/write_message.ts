import { type AssistantMessage, contentText, type FunctionToolCall, type Usage } from "@tare/messages";
import { splitText } from "../chat/write_completion.ts";
import type { JsonRecord } from "../json.ts";
import { writeMessagesUsage } from "./message_assembler.ts";

const STOP_REASONS: Readonly<Record<string, string>> = {
  stop: "end_turn",
  tool_calls: "tool_use",
  length: "max_tokens",
  content_filter: "refusal",
};

/** Writes one reply of the Messages format: whole, or as the events of a stream. */
export class MessageWriter {
  readonly #reply: ConstructorParameters<typeof MessageWriter>[0];
  readonly #blocks: readonly JsonRecord[];

  /** @throws {SyntaxError} if the arguments of a call are no JSON, which the format requires. */
  constructor(reply: {
    readonly id: string;
    readonly model: string;
    readonly message: AssistantMessage;
    /** Additional leading blocks. Default: none. */
    readonly before?: readonly JsonRecord[];
    /** Finish reason of chat completions. */
    readonly finishReason: string;
    readonly usage: Usage;
  }) {
    this.#reply = reply;
    this.#blocks = [...reply.before ?? [], ...blocksOf(reply.message)];
  }

  /** Returns an unstreamed reply. */
  body(): JsonRecord {
    const { finishReason, usage } = this.#reply;
    return { ...this.#envelope(usage), content: this.#blocks, stop_reason: STOP_REASONS[finishReason] };
  }

  /** Returns the events of a streamed reply. */
  events(): JsonRecord[] {
    const { finishReason, usage } = this.#reply;
    const first = { ...usage, ...usage.firstRead, outputTokens: 1 };
    const begun = { ...this.#envelope(first), content: [], stop_reason: null };
    const delta = { stop_reason: STOP_REASONS[finishReason], stop_sequence: null };
    return [
      { type: "message_start", message: begun },
      { type: "ping" },
      ...this.#blocks.flatMap((block, index) => [
        { type: "content_block_start", index, content_block: emptied(block) },
        ...deltasOf(block).map((delta) => ({ type: "content_block_delta", index, delta })),
        { type: "content_block_stop", index },
      ]),
      { type: "message_delta", delta, usage: writeMessagesUsage(usage) },
      { type: "message_stop" },
    ];
  }

  #envelope(usage: Usage): JsonRecord {
    const { id, model } = this.#reply;
    const counted = { ...writeMessagesUsage(usage), service_tier: "standard" };
    return {
      id,
      type: "message",
      role: "assistant",
      model,
      content: [],
      stop_sequence: null,
      usage: counted,
    };
  }
}

function blocksOf(message: AssistantMessage): JsonRecord[] {
  const { reasoning_content: thinking, tool_calls = [] } = message;
  const text = contentText(message.content);
  const { signature = "" } = message as { readonly signature?: unknown };
  return [
    ...(thinking ? [{ type: "thinking", thinking, signature }] : []),
    ...(text ? [{ type: "text", text }] : []),
    ...(tool_calls as readonly FunctionToolCall[]).map(({ id, function: { name, arguments: input } }) => ({
      type: "tool_use",
      id,
      name,
      // Invalid JSON is streamed unchanged.
      ...(isJson(input) ? { input: JSON.parse(input) } : { input: {}, [RAW]: input }),
    })),
  ];
}

/** Key of invalid JSON. */
const RAW = Symbol("raw input");

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function emptied(block: JsonRecord): JsonRecord {
  if (block.type === "thinking") return { ...block, thinking: "", signature: "" };
  if (block.type === "text") return { ...block, text: "" };
  return "input" in block ? { ...block, input: {} } : block;
}

function deltasOf(
  { type, thinking, signature, text, input, [RAW]: raw }: JsonRecord & { readonly [RAW]?: string },
): JsonRecord[] {
  const pieces = (value: unknown) => splitText(String(value));
  if (type === "text") return pieces(text).map((piece) => ({ type: "text_delta", text: piece }));
  if (type === "thinking") {
    return [
      ...pieces(thinking).map((piece) => ({ type: "thinking_delta", thinking: piece })),
      { type: "signature_delta", signature },
    ];
  }
  if (input === undefined) return [];
  return pieces(raw ?? JSON.stringify(input)).map((piece) => ({
    type: "input_json_delta",
    partial_json: piece,
  }));
}

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

export function errorBody(status: number, message: string): {
  readonly type: "error";
  readonly error: { readonly type: string; readonly message: string };
} {
  const type = TYPES[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return { type: "error", error: { type, message } };
}

/** Returns the status of an error type, if specific. */
export function statusOf(type: unknown): number | undefined {
  const [status] = Object.entries(TYPES).find(([, name]) => name === type) ?? [];
  return status === undefined ? undefined : Number(status);
}
