import { CallAssembler } from "./call_assembler.ts";
import { asRecord, type JsonRecord } from "../json_record.ts";
import { mergeDelta, withoutNulls } from "./merge_delta.ts";
import type { FinishReason, ModelEvent, Usage } from "@tare/messages";
import { readUsage } from "./usage.ts";

/** Where providers put the reasoning; some fill several of these with the same text. */
const REASONING_FIELDS = ["reasoning_content", "reasoning", "reasoning_text"];

/** Words for a reply that the provider gave up. */
const FAILED = ["error", "insufficient_system_resource"];

/** Words for why a reply ended. Any other word is taken for `stop`. */
const FINISH_REASONS: Readonly<Record<string, FinishReason>> = {
  length: "length",
  max_tokens: "length",
  model_length: "length",
  content_filter: "content_filter",
};

/** Puts a reply together from the chunks of a chat-completions stream. */
export class ReplyAssembler {
  readonly #calls = new CallAssembler();
  #content: string | null = null;
  #fields: JsonRecord = {};
  #finish = "";
  #usage: Usage | undefined;
  #begun = false;
  #isReply = false;

  /** True once something of the reply was given to those who watch. */
  get begun(): boolean {
    return this.#begun;
  }

  /** True once a chunk was one of a chat completion. */
  get isReply(): boolean {
    return this.#isReply;
  }

  /** Takes one chunk and gives what it tells those who watch. */
  read(chunk: unknown): ModelEvent[] {
    const { choices, usage, x_groq: groq } = asRecord(chunk) ?? {};
    this.#isReply ||= Array.isArray(choices);
    const choice = asRecord(Array.isArray(choices) ? choices[0] : undefined) ?? {};
    this.#usage = readUsage(usage) ?? readUsage(choice.usage) ?? readUsage(asRecord(groq)?.usage) ??
      this.#usage;
    if (typeof choice.finish_reason === "string") this.#finish ||= choice.finish_reason;
    const events = this.#take(asRecord(choice.delta) ?? {});
    // Some servers send the whole reply as a message instead of deltas, or once more after them.
    const message = this.#begun || events.length > 0 ? undefined : asRecord(choice.message);
    if (message) events.push(...this.#take(message));
    this.#begun ||= events.length > 0;
    return events;
  }

  /** The whole reply, or nothing if the stream ended before it was whole. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (!this.#finish || FAILED.includes(this.#finish)) return undefined;
    const calls = this.#calls.finish(takenIds);
    const finishReason = FINISH_REASONS[this.#finish] ?? (calls.length > 0 ? "tool_calls" : "stop");
    return {
      type: "completed",
      message: {
        role: "assistant",
        content: this.#content,
        ...withoutNulls(this.#fields),
        ...(calls.length > 0 && { tool_calls: calls }),
      },
      finishReason,
      ...(this.#usage && { usage: this.#usage }),
    };
  }

  #take({ role: _, content, tool_calls: calls, ...fields }: JsonRecord): ModelEvent[] {
    const events: ModelEvent[] = [];
    const reasoning = reasoningOf(fields);
    if (reasoning) events.push({ type: "reasoning_delta", text: reasoning });
    const text = textOf(content);
    if (text !== undefined) this.#content = (this.#content ?? "") + text;
    const said = (text ?? "") + (typeof fields.refusal === "string" ? fields.refusal : "");
    if (said) events.push({ type: "text_delta", text: said });
    if (calls) events.push(...this.#calls.read(calls));
    this.#fields = mergeDelta(this.#fields, fields);
    return events;
  }
}

function textOf(content: unknown): string | undefined {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? joinField(content, ["text"]) : undefined;
}

function reasoningOf(fields: JsonRecord): string {
  for (const name of REASONING_FIELDS) {
    const text = fields[name];
    if (typeof text === "string" && text !== "") return text;
  }
  const { reasoning_details: details } = fields;
  return Array.isArray(details) ? joinField(details, ["text", "summary"]) : "";
}

function joinField(parts: readonly unknown[], names: readonly string[]): string {
  return parts.flatMap((part) => names.map((name) => asRecord(part)?.[name])).filter((text) =>
    typeof text === "string"
  ).join("");
}
