import type { AssistantMessage, FunctionToolCall } from "@tare/messages";
import type { ToolCallPieces } from "./fault.ts";
import type { SimulatedReply } from "./model.ts";
import { splitText } from "./split_text.ts";
import { toolCallDeltas } from "./tool_call_deltas.ts";

/** The assistant message of a reply, with an id on every call. */
export type ReplyMessage = Omit<AssistantMessage, "content" | "tool_calls"> & {
  readonly content: string | null;
  readonly tool_calls?: readonly FunctionToolCall[];
};

/** What a whole reply and a streamed one have in common. */
export interface WireReply {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly message: ReplyMessage;
  readonly finishReason: string;
  /** The provider's `usage` object; absent if none is to be sent. */
  readonly usage?: Readonly<Record<string, unknown>>;
}

/** Completes a model's reply: calls without an id get one, made of `idSeed` and their position. */
export function replyMessage(reply: SimulatedReply, idSeed: string): ReplyMessage {
  const { content = null, tool_calls = [], finish_reason: _, fault: __, ...rest } = reply;
  return {
    ...rest,
    role: "assistant",
    content,
    ...(tool_calls.length > 0 && {
      tool_calls: tool_calls.map((call, index) => ({ ...call, id: call.id ?? `call_${idSeed}_${index}` })),
    }),
  };
}

/** The body of a reply that isn't streamed. */
export function completionBody({ id, created, model, message, finishReason, usage }: WireReply): object {
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason, logprobs: null }],
    ...(usage && { usage }),
  };
}

/** The chunks of a streamed reply. With usage, the last one carries it and the others say `null`, as OpenAI's do. */
export function completionChunks(reply: WireReply, pieces?: ToolCallPieces): object[] {
  const { id, created, model, message, finishReason, usage } = reply;
  const chunk = (choices: readonly object[], chunkUsage: object | null) => ({
    id,
    object: "chat.completion.chunk",
    created,
    model,
    choices,
    ...(usage && { usage: chunkUsage }),
  });
  const choice = (delta: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta, finish_reason }], null);
  return [
    ...replyDeltas(message, pieces).map((delta) => choice(delta)),
    choice({}, finishReason),
    ...(usage ? [chunk([], usage)] : []),
  ];
}

function replyDeltas(message: ReplyMessage, pieces?: ToolCallPieces): object[] {
  const { role, content, reasoning_content, refusal, tool_calls = [], ...unknown } = message;
  return [
    { role, content: tool_calls.length > 0 && content === null ? null : "" },
    ...splitText(reasoning_content ?? "").map((piece) => ({ reasoning_content: piece })),
    ...splitText(content ?? "").map((piece) => ({ content: piece })),
    ...splitText(refusal ?? "").map((piece) => ({ refusal: piece })),
    ...(Object.keys(unknown).length > 0 ? [unknown] : []),
    ...toolCallDeltas(tool_calls, pieces).map((tool_calls) => ({ tool_calls })),
  ];
}
