import type { AssistantMessage, FunctionToolCall } from "@tare/messages";
import type { JsonRecord } from "../json.ts";

/** The body of a reply that isn't streamed. */
export function completionBody(
  { id, created, model }: {
    readonly id: string;
    /** Seconds since 1970. */
    readonly created: number;
    /** Name of the model. */
    readonly model: string;
  },
  { message, finishReason, usage }: {
    readonly message: Omit<AssistantMessage, "content" | "tool_calls"> & {
      readonly content: string | null;
      readonly tool_calls?: readonly FunctionToolCall[];
    };
    /** Why it ends, in the format's words. */
    readonly finishReason: string;
    /** What {@linkcode writeUsage} makes; absent if none is told. */
    readonly usage?: JsonRecord;
  },
): object {
  return {
    id,
    object: "chat.completion",
    created,
    model,
    choices: [{ index: 0, message, finish_reason: finishReason, logprobs: null }],
    ...(usage && { usage }),
  };
}

/** Writes the chunks of one streamed reply. If it tells usage, all chunks but the last say `null` of it. */
export function chunkWriter(
  { id, created, model }: Parameters<typeof completionBody>[0],
  { tellsUsage }: { readonly tellsUsage: boolean },
): {
  /** A chunk with this delta. The last of them, which is empty, has the reason why the reply ends. */
  delta(delta: object, finishReason?: string): object;
  /** The last chunk of a stream that tells usage. */
  usage(usage: JsonRecord): object;
} {
  const chunk = (choices: readonly object[], usage: JsonRecord | null) => ({
    id,
    object: "chat.completion.chunk",
    created,
    model,
    choices,
    ...(tellsUsage && { usage }),
  });
  return {
    delta: (delta, finishReason) =>
      chunk([{ index: 0, delta, finish_reason: finishReason ?? null, logprobs: null }], null),
    usage: (usage) => chunk([], usage),
  };
}

/**
 * The chunks of a whole reply that is told as if it came bit by bit.
 *
 * @param options.callDeltas Cuts the calls into what each chunk's `tool_calls` holds. Default: {@linkcode toolCallDeltas}.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { completionChunks, ReplyAssembler } from "@tare/wire";
 *
 * const message = { role: "assistant", content: "Hello there." } as const;
 * const head = { id: "chatcmpl-1", created: 0, model: "m" };
 * const reply = new ReplyAssembler();
 * for (const chunk of completionChunks(head, { message, finishReason: "stop" })) reply.read(chunk);
 * assertEquals(reply.finish(new Set())?.message, message);
 * ```
 */
export function completionChunks(
  head: Parameters<typeof completionBody>[0],
  { message, finishReason, usage }: Parameters<typeof completionBody>[1],
  { callDeltas = toolCallDeltas }: {
    readonly callDeltas?: (calls: readonly FunctionToolCall[]) => ReturnType<typeof toolCallDeltas>;
  } = {},
): object[] {
  const writer = chunkWriter(head, { tellsUsage: usage !== undefined });
  const { role, content, reasoning_content, refusal, tool_calls = [], ...others } = message;
  const deltas = [
    { role, content: tool_calls.length > 0 && content === null ? null : "" },
    ...splitText(reasoning_content ?? "").map((piece) => ({ reasoning_content: piece })),
    ...splitText(content ?? "").map((piece) => ({ content: piece })),
    ...splitText(refusal ?? "").map((piece) => ({ refusal: piece })),
    ...(Object.keys(others).length > 0 ? [others] : []),
    ...callDeltas(tool_calls).map((tool_calls) => ({ tool_calls })),
  ];
  return [
    ...deltas.map((delta) => writer.delta(delta)),
    writer.delta({}, finishReason),
    ...(usage ? [writer.usage(usage)] : []),
  ];
}

/** Cuts calls as most providers do: each opens with its id and name, then come its arguments, then the next call. */
export function toolCallDeltas(
  calls: readonly FunctionToolCall[],
  { split = splitText }: { readonly split?: (text: string) => readonly string[] } = {},
): readonly (readonly {
  /** Which of the reply's calls it belongs to. */
  readonly index?: number;
  readonly id?: string;
  readonly type?: "function";
  readonly function: { readonly name?: string; readonly arguments?: string };
}[])[] {
  return calls.flatMap(({ id, type, function: { name, arguments: text } }, index) => [
    [{ index, id, type, function: { name, arguments: "" } }],
    ...split(text).map((piece) => [{ index, function: { arguments: piece } }]),
  ]);
}

/** Length of a piece in UTF-16 code units, unless the text is so long that there would be too many pieces. */
const PIECE_CHARS = 24;

const MAX_PIECES = 64;

/** Cuts a text into pieces as a streaming provider would, always the same for the same text, surrogate pairs whole. */
export function splitText(text: string): string[] {
  const pieceChars = Math.max(PIECE_CHARS, Math.ceil(text.length / MAX_PIECES));
  const pieces: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = start + pieceChars;
    if (/[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end++;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
