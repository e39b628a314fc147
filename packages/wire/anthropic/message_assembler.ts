import type { AssistantMessage, FinishReason, FunctionToolCall, ModelEvent, Usage } from "@tare/messages";
import { addUsage, freeCallId } from "@tare/messages/internal";
import { readUsage } from "../chat/chat_completions.ts";
import { asRecord, isRecord, type JsonRecord, listOf, parseRecord, withoutNulls } from "../json.ts";
import { MAX_CALLS, type RawEvent, ReplyTooLong } from "../sse.ts";
import { readInput, writeReply } from "./write_messages_body.ts";

/** Other stop reasons mean `stop`. */
const FINISH_REASONS: Readonly<Record<string, FinishReason>> = {
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

/** Assembles a reply from the events of Messages streams: a paused reply continues in the next one. */
export class MessageAssembler {
  readonly #blocks = new StreamedBlocks();
  /** Number of each call by block index. */
  readonly #calls = new Map<number, number>();
  #offset = 0;
  #stop = "";
  #usage: JsonRecord = {};
  /** Usage of earlier streams, each with its own bill. */
  #earlier: Usage | undefined;
  #isMessage = false;

  get isReply(): boolean {
    return this.#isMessage;
  }

  /** Whether the reply must be sent back to continue. */
  get isPaused(): boolean {
    return this.#stop === "pause_turn";
  }

  /** Reads one event. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS}. */
  read(value: unknown): ModelEvent[] {
    const event = asRecord(value) ?? {};
    const { type, message, usage } = event;
    if (type === "message_start") {
      this.#isMessage = true;
      this.#earlier = this.#readUsage();
      this.#usage = asRecord(asRecord(message)?.usage) ?? {};
      this.#offset = this.#blocks.blocks.length;
      this.#stop = "";
    }
    if (type === "message_delta") {
      const { stop_reason: stop } = asRecord(event.delta) ?? {};
      if (typeof stop === "string") this.#stop = stop;
      this.#usage = { ...this.#usage, ...withoutNulls(asRecord(usage) ?? {}) };
    }
    return typeof event.index === "number" ? this.#take({ ...event, index: event.index + this.#offset }) : [];
  }

  /** Returns the reply so far, with new ids for calls with missing or taken ones. */
  message(takenIds: ReadonlySet<string> = new Set()): AssistantMessage {
    const used = new Set(takenIds);
    const calls: FunctionToolCall[] = [];
    const texts: string[] = [];
    const thoughts: string[] = [];
    const blocks = this.#blocks.blocks.map(([index, block]): JsonRecord => {
      if (block.type === "text") texts.push(String(block.text ?? ""));
      if (block.type === "thinking") thoughts.push(String(block.thinking ?? ""));
      const written = this.#blocks.inputOf(index);
      if (block.type !== "tool_use") return written === "" ? block : { ...block, input: readInput(written) };
      const id = freeCallId(String(block.id ?? ""), used);
      used.add(id);
      const input = written || JSON.stringify(block.input ?? {});
      calls.push({ id, type: "function", function: { name: String(block.name ?? ""), arguments: input } });
      // The call contains the other fields.
      const { name: _, input: __, ...rest } = block;
      return { ...rest, id };
    });
    const text = texts.join("");
    const plain: AssistantMessage = {
      role: "assistant",
      content: text === "" ? null : text,
      ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
    const whole = { ...plain, carried: { items: blocks } };
    const isPlain = JSON.stringify(writeReply(plain)) === JSON.stringify(writeReply(whole));
    return isPlain ? plain : whole;
  }

  /** Returns the complete reply; `undefined` before its end. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (this.#stop === "" || this.isPaused) return undefined;
    const message = this.message(takenIds);
    const usage = this.#readUsage();
    return {
      type: "completed",
      message,
      finishReason: FINISH_REASONS[this.#stop] ?? (message.tool_calls ? "tool_calls" : "stop"),
      ...(usage && { usage }),
    };
  }

  #readUsage(): Usage | undefined {
    const content = this.#blocks.blocks.flatMap(([index, block]) => index < this.#offset ? [] : [block]);
    const usage = readMessagesUsage(this.#usage, { reply: { content } });
    const before = this.#earlier;
    if (!before || !usage) return usage ?? before;
    return { ...addUsage(before, usage), firstRead: before.firstRead ?? readOf(before) };
  }

  #take(event: JsonRecord & { readonly index: number }): ModelEvent[] {
    this.#blocks.add(event);
    const { index, content_block: block } = event;
    const { text, thinking, partial_json: json } = asRecord(event.delta) ?? {};
    if (typeof text === "string" && text) return [{ type: "text_delta", text }];
    if (typeof thinking === "string" && thinking) return [{ type: "reasoning_delta", text: thinking }];
    const begins = isRecord(block) && block.type === "tool_use";
    if (!begins && typeof json !== "string") return [];
    if (begins && !this.#calls.has(index)) this.#calls.set(index, this.#calls.size);
    if (this.#calls.size > MAX_CALLS) {
      throw new ReplyTooLong(`it makes more than ${MAX_CALLS} tool calls`);
    }
    return [{
      type: "tool_call_delta",
      index: this.#calls.get(index) ?? this.#calls.size,
      ...(begins && { id: String(block.id ?? ""), name: String(block.name ?? "") }),
      ...(typeof json === "string" && { arguments: json }),
    }];
  }
}

class StreamedBlocks {
  readonly #blocks = new Map<unknown, Record<string, unknown>>();
  readonly #inputs = new Map<unknown, string>();

  add({ type: event, index, content_block: begun, delta: more }: JsonRecord): void {
    if (event === "content_block_start" && isRecord(begun)) this.#blocks.set(index, { ...begun });
    const block = this.#blocks.get(index);
    const delta = asRecord(more);
    if (event !== "content_block_delta" || !block || !delta) return;
    const { type, partial_json: json, citation, ...fields } = delta;
    if (type === "input_json_delta") this.#inputs.set(index, this.inputOf(index) + String(json ?? ""));
    else if (citation !== undefined) block.citations = [...listOf(block.citations), citation];
    // Texts grow; a signature arrives complete.
    else for (const [name, value] of Object.entries(fields)) block[name] = added(block[name], value);
  }

  inputOf(index: unknown): string {
    return this.#inputs.get(index) ?? "";
  }

  get blocks(): readonly (readonly [index: number, block: JsonRecord])[] {
    return [...this.#blocks].map(([index, block]) => [Number(index), block] as const).sort(([a], [b]) =>
      a - b
    );
  }
}

export function readStreamedBlocks(events: readonly RawEvent[]): JsonRecord[] {
  const streamed = new StreamedBlocks();
  for (const { data } of events) {
    const event = parseRecord(data);
    if (event) streamed.add(event);
  }
  return streamed.blocks.map(([index, block]) => {
    const input = streamed.inputOf(index);
    return input === "" ? block : { ...block, input: readInput(input) };
  });
}

function added(before: unknown, more: unknown): unknown {
  return typeof before === "string" && typeof more === "string" ? before + more : more;
}

/**
 * Reads the usage of a reply: the prompt is the total of uncached input, cache reads and cache writes.
 * Returns `undefined` without prompt tokens. A provider that runs its own tools reads the prompt again after
 * each, and reports totals.
 */
export function readMessagesUsage(value: unknown, { begun, reads = 1, reply }: {
  /** Usage at the start of the stream. Default: none. */
  readonly begun?: unknown;
  /** Most reads of the prompt. Default: 1. */
  readonly reads?: number;
  /** The whole reply. Default: unknown. */
  readonly reply?: JsonRecord;
} = {}): Usage | undefined {
  // Every cache write is reported.
  const read = (counted: unknown): Usage | undefined => {
    const usage = readUsage(counted, reply);
    return usage && { cacheWriteTokens: 0, ...usage };
  };
  const usage = read(value);
  if (!usage || reads === 1) return usage;
  const { iterations } = asRecord(value) ?? {};
  const counted = begun ?? (Array.isArray(iterations) ? iterations[0] : undefined);
  return { ...usage, firstRead: readOf(read(counted) ?? firstRead(usage, reads)) };
}

function readOf(usage: Usage): NonNullable<Usage["firstRead"]> {
  const { promptTokens, cachedTokens, cacheWriteTokens, hourWriteTokens, estimated } = usage;
  return {
    ...{ promptTokens, cachedTokens },
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
    ...(hourWriteTokens !== undefined && { hourWriteTokens }),
    ...(estimated && { estimated }),
  };
}

/** Estimates the first read, if later ones were served what it read and wrote. */
function firstRead(usage: Usage, reads: number): Usage {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0 } = usage;
  const served = Math.max(0, Math.round((cachedTokens - (reads - 1) * cacheWriteTokens) / reads));
  const fresh = Math.round((promptTokens - cachedTokens - cacheWriteTokens) / reads);
  return { ...usage, promptTokens: served + cacheWriteTokens + fresh, cachedTokens: served, estimated: true };
}

export function writeMessagesUsage(usage: Usage): JsonRecord {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, hourWriteTokens = 0, outputTokens } = usage;
  return {
    input_tokens: promptTokens - cachedTokens - cacheWriteTokens,
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    cache_creation: {
      ephemeral_5m_input_tokens: cacheWriteTokens - hourWriteTokens,
      ephemeral_1h_input_tokens: hourWriteTokens,
    },
    output_tokens: outputTokens,
  };
}
