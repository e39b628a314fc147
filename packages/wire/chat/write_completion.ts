import type { AssistantMessage, FunctionToolCall, Usage } from "@tare/messages";
import { writeUsage } from "./chat_completions.ts";

/**
 * Writes one chat-completions reply: whole, by chunk, or in chunks afterwards.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { CompletionWriter, ReplyAssembler } from "@tare/wire/internal";
 *
 * const message = { role: "assistant", content: "Hello there." } as const;
 * const usage = { promptTokens: 9, cachedTokens: 0, outputTokens: 2 };
 * const writer = new CompletionWriter({ id: "chatcmpl-1", created: 0, model: "m" });
 * const reply = new ReplyAssembler();
 * for (const chunk of writer.chunks({ message, finishReason: "stop", usage })) reply.read(chunk);
 * const { message: read, usage: reported } = reply.finish(new Set())!;
 * assertEquals([read, reported], [message, usage]);
 * ```
 */
export class CompletionWriter {
  readonly #head: { readonly id: string; readonly created: number; readonly model: string };
  readonly #reportsUsage: boolean;
  readonly #dialect: Parameters<typeof writeUsage>[1];

  constructor(
    { id, created, model }: {
      readonly id: string;
      /** Seconds since 1970. */
      readonly created: number;
      readonly model: string;
    },
    { reportsUsage = true, dialect }: {
      /** Whether usage is reported. Default: true. */
      readonly reportsUsage?: boolean;
      /**
       * Cache usage, in addition to `prompt_tokens`, which include cached tokens. Default: `openai`.
       * - `openai`: `prompt_tokens_details.cached_tokens`
       * - `deepseek`: also `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`
       * - `anthropic`: also `cache_read_input_tokens`, `cache_creation_input_tokens` and
       *   `prompt_tokens_details.cache_write_tokens`
       */
      readonly dialect?: "openai" | "deepseek" | "anthropic" | undefined;
    } = {},
  ) {
    this.#head = { id, created, model };
    this.#reportsUsage = reportsUsage;
    this.#dialect = dialect;
  }

  body({ message, finishReason, usage }: {
    readonly message: Omit<AssistantMessage, "content" | "tool_calls"> & {
      readonly content: string | null;
      readonly tool_calls?: readonly FunctionToolCall[];
    };
    /** Finish reason of the format. */
    readonly finishReason: string;
    readonly usage: Usage;
  }): object {
    const { id, ...head } = this.#head;
    return {
      id,
      object: "chat.completion",
      ...head,
      choices: [{ index: 0, message, finish_reason: finishReason, logprobs: null }],
      ...(this.#reportsUsage && { usage: writeUsage(usage, this.#dialect) }),
    };
  }

  /** Returns a delta's chunk. The last delta is empty, with the finish reason. */
  delta(delta: object, finishReason?: string): object {
    return this.#chunk([{ index: 0, delta, finish_reason: finishReason ?? null, logprobs: null }], null);
  }

  usage(usage: Usage): object[] {
    return this.#reportsUsage ? [this.#chunk([], writeUsage(usage, this.#dialect))] : [];
  }

  /**
   * Returns a complete reply in chunks.
   * @param options.callDeltas Splits calls into the `tool_calls` of chunks. Default:
   * {@linkcode CompletionWriter.callDeltas}.
   */
  chunks(
    { message, finishReason, usage }: Parameters<CompletionWriter["body"]>[0],
    { callDeltas = CompletionWriter.callDeltas }: {
      readonly callDeltas?: (
        calls: readonly FunctionToolCall[],
      ) => ReturnType<typeof CompletionWriter.callDeltas>;
    } = {},
  ): object[] {
    const { role, content, reasoning_content, refusal, tool_calls = [], ...others } = message;
    const deltas = [
      { role, content: tool_calls.length > 0 && content === null ? null : "" },
      ...splitText(reasoning_content ?? "").map((piece) => ({ reasoning_content: piece })),
      ...splitText(content ?? "").map((piece) => ({ content: piece })),
      ...splitText(refusal ?? "").map((piece) => ({ refusal: piece })),
      ...(Object.keys(others).length > 0 ? [others] : []),
      ...callDeltas(tool_calls).map((tool_calls) => ({ tool_calls })),
    ];
    return [...deltas.map((delta) => this.delta(delta)), this.delta({}, finishReason), ...this.usage(usage)];
  }

  /** Splits calls as most providers do: id and name, then arguments. */
  static callDeltas(
    calls: readonly FunctionToolCall[],
    { split = splitText }: { readonly split?: (text: string) => readonly string[] } = {},
  ): readonly (readonly {
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

  /** Returns a chunk; with usage, others contain `null`. */
  #chunk(choices: readonly object[], usage: object | null): object {
    const { id, ...head } = this.#head;
    return {
      id,
      object: "chat.completion.chunk",
      ...head,
      choices,
      ...(this.#reportsUsage && { usage }),
    };
  }
}

/** Length of a piece in UTF-16 code units, and most pieces. */
const PIECE_CHARS = 24;

const MAX_PIECES = 64;

/** Splits text deterministically, like a streaming provider, with surrogate pairs intact. */
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
