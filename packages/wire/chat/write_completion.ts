import type { AssistantMessage, FunctionToolCall, Usage } from "@tare/messages";
import { writeUsage } from "./chat_completions.ts";

/**
 * Writes one reply of the chat completions: whole, chunk by chunk as it comes, or as the chunks of one that is whole.
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
 * const { message: read, usage: told } = reply.finish(new Set())!;
 * assertEquals([read, told], [message, usage]);
 * ```
 */
export class CompletionWriter {
  readonly #head: { readonly id: string; readonly created: number; readonly model: string };
  readonly #tellsUsage: boolean;
  readonly #dialect: Parameters<typeof writeUsage>[1];

  /** A writer for the reply of this head. */
  constructor(
    { id, created, model }: {
      readonly id: string;
      /** Seconds since 1970. */
      readonly created: number;
      /** Name of the model. */
      readonly model: string;
    },
    { tellsUsage = true, dialect }: {
      /** Whether it says what the reply took. Default: yes. */
      readonly tellsUsage?: boolean;
      /**
       * How it reports the cache:
       *
       * - `openai`, the default: `prompt_tokens_details.cached_tokens`
       * - `deepseek`: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens` beside it
       * - `anthropic`, as gateways to it do: `cache_read_input_tokens` and `cache_creation_input_tokens`, the same again in
       *   `prompt_tokens_details`
       *
       * In all of them `prompt_tokens` is the whole prompt, cached tokens included.
       */
      readonly dialect?: "openai" | "deepseek" | "anthropic" | undefined;
    } = {},
  ) {
    this.#head = { id, created, model };
    this.#tellsUsage = tellsUsage;
    this.#dialect = dialect;
  }

  /** The body of a reply that isn't streamed. */
  body({ message, finishReason, usage }: {
    readonly message: Omit<AssistantMessage, "content" | "tool_calls"> & {
      readonly content: string | null;
      readonly tool_calls?: readonly FunctionToolCall[];
    };
    /** Why it ends, in the format's words. */
    readonly finishReason: string;
    /** What it took; of the tokens of the output, those that nobody reads are told where they are known. */
    readonly usage: Usage;
  }): object {
    const { id, ...head } = this.#head;
    return {
      id,
      object: "chat.completion",
      ...head,
      choices: [{ index: 0, message, finish_reason: finishReason, logprobs: null }],
      ...(this.#tellsUsage && { usage: writeUsage(usage, this.#dialect) }),
    };
  }

  /** A chunk with this delta. The last of them, which is empty, has the reason why the reply ends. */
  delta(delta: object, finishReason?: string): object {
    return this.#chunk([{ index: 0, delta, finish_reason: finishReason ?? null, logprobs: null }], null);
  }

  /** What comes behind the last delta: a chunk with what the reply took, if that is told. */
  usage(usage: Usage): object[] {
    return this.#tellsUsage ? [this.#chunk([], writeUsage(usage, this.#dialect))] : [];
  }

  /**
   * The chunks of a whole reply that is told as if it came bit by bit.
   *
   * @param options.callDeltas Cuts the calls into what each chunk's `tool_calls` holds. Default:
   *   {@linkcode CompletionWriter.callDeltas}.
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

  /** Cuts calls as most providers do: each opens with its id and name, then come its arguments, then the next call. */
  static callDeltas(
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

  /** If usage is told, all chunks but the last say `null` of it. */
  #chunk(choices: readonly object[], usage: object | null): object {
    const { id, ...head } = this.#head;
    return {
      id,
      object: "chat.completion.chunk",
      ...head,
      choices,
      ...(this.#tellsUsage && { usage }),
    };
  }
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
