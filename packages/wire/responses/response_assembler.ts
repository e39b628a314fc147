import type { AssistantMessage, FinishReason, FunctionToolCall, ModelEvent, Usage } from "@tare/messages";
import { freeId } from "../chat/reply_assembler.ts";
import { readUsage } from "../chat/usage.ts";
import { asRecord, isRecord, type JsonRecord } from "../json.ts";
import { MAX_CALLS, ReplyTooLong } from "../reply_stream.ts";
import { summary } from "./responses_protocol.ts";

/** Puts a reply together from the events of a response's stream, or from a whole response. */
export class ResponseAssembler {
  /** Items by their place in the output; those that aren't whole as far as they were announced. */
  readonly #items = new Map<number, JsonRecord>();
  /** Which call each item that calls a tool is, by the item's place. */
  readonly #calls = new Map<number, number>();
  #response: JsonRecord | undefined;
  #summaries = 0;
  #begun = false;
  #isReply = false;

  /** True once something of the reply was given to those who watch. */
  get begun(): boolean {
    return this.#begun;
  }

  /** True once an event was one of a response. */
  get isReply(): boolean {
    return this.#isReply;
  }

  /** Takes one event and gives what it tells those who watch. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS} calls. */
  read(value: unknown): ModelEvent[] {
    const event = asRecord(value) ?? {};
    const { object, type = "" } = event;
    if (object === "response") this.#end(event);
    this.#isReply ||= object === "response" || String(type).startsWith("response.");
    if (ENDS.includes(type)) this.#end(asRecord(event.response) ?? {});
    const events = this.#take(event);
    this.#begun ||= events.length > 0;
    return events;
  }

  /** The whole reply, or nothing if the stream ended before it was whole. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (!this.#response) return undefined;
    const { usage: told, incomplete_details: cut } = this.#response;
    const usage = readUsage(told);
    const message = this.#message(takenIds, usage);
    const cutBy = CUTS[String(asRecord(cut)?.reason)];
    return {
      type: "completed",
      message,
      finishReason: cutBy ?? (message.tool_calls ? "tool_calls" : "stop"),
      ...(usage && { usage }),
    };
  }

  #end(response: JsonRecord): void {
    const { status } = response;
    if (status !== "completed" && status !== "incomplete") return;
    this.#response = response;
    const output = Array.isArray(response.output) ? response.output.filter(isRecord) : [];
    // Some servers leave out of the last event what the others have told.
    if (output.length >= this.#items.size) output.forEach((item, at) => this.#items.set(at, item));
  }

  #message(takenIds: ReadonlySet<string>, usage: Usage | undefined): AssistantMessage {
    const used = new Set(takenIds);
    const calls: FunctionToolCall[] = [];
    const [texts, refusals, thoughts]: string[][] = [[], [], []];
    const items = [...this.#items].sort(([a], [b]) => a - b).map(([, item]): JsonRecord => {
      if (item.type === "reasoning") thoughts!.push(summary(item) || textsOf(item, "reasoning_text"));
      if (item.type === "message") {
        texts!.push(textsOf(item, "output_text"));
        refusals!.push(textsOf(item, "refusal"));
      }
      if (item.type !== "function_call") return item;
      const id = freeId(String(item.call_id ?? ""), used);
      used.add(id);
      const input = String(item.arguments ?? "").trim() || "{}";
      calls.push({ id, type: "function", function: { name: String(item.name ?? ""), arguments: input } });
      // The call has the rest.
      const { name: _, arguments: __, ...rest } = item;
      return { ...rest, call_id: id };
    });
    const [text, refusal] = [texts!.join(""), refusals!.join("")];
    const reasoning = thoughts!.filter(Boolean).join("\n");
    const tokens = usage?.reasoningTokens;
    const whole = withoutLostThoughts(withoutLooseThoughts(items)).map(withoutNulls);
    return {
      role: "assistant",
      content: text === "" ? null : text,
      ...(refusal !== "" && { refusal }),
      ...(reasoning !== "" && { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls }),
      ...(isMore(whole) && {
        carried: { ...(whole.some(isThought) && tokens !== undefined && { tokens }), items: whole },
      }),
    };
  }

  #take({ type, output_index: at, item, delta }: JsonRecord): ModelEvent[] {
    if (typeof at !== "number") return [];
    const text = typeof delta === "string" ? delta : "";
    switch (type) {
      case "response.output_item.added":
        if (!isRecord(item)) return [];
        this.#items.set(at, item);
        if (item.type !== "function_call") return [];
        this.#calls.set(at, this.#calls.size);
        if (this.#calls.size > MAX_CALLS) {
          throw new ReplyTooLong(`it makes more than ${MAX_CALLS} calls of tools`);
        }
        return [{
          type: "tool_call_delta",
          index: this.#calls.size - 1,
          id: String(item.call_id ?? ""),
          name: String(item.name ?? ""),
        }];
      case "response.output_item.done":
        if (isRecord(item)) this.#items.set(at, item);
        return [];
      case "response.output_text.delta":
      case "response.refusal.delta":
        return text === "" ? [] : [{ type: "text_delta", text }];
      case "response.reasoning_summary_part.added":
        return this.#summaries++ === 0 ? [] : [{ type: "reasoning_delta", text: "\n" }];
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return text === "" ? [] : [{ type: "reasoning_delta", text }];
      case "response.function_call_arguments.delta": {
        const index = this.#calls.get(at);
        return text === "" || index === undefined
          ? []
          : [{ type: "tool_call_delta", index, arguments: text }];
      }
      default:
        return [];
    }
  }
}

const ENDS: readonly unknown[] = ["response.completed", "response.incomplete"];

/** Why a response is incomplete. */
const CUTS: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  content_filter: "content_filter",
};

function isThought({ type }: JsonRecord): boolean {
  return type === "reasoning";
}

/** The items without what was thought for one that never came: the provider refuses the one without the other. */
function withoutLooseThoughts(items: readonly JsonRecord[]): readonly JsonRecord[] {
  return items.slice(0, items.findLastIndex((item) => !isThought(item)) + 1);
}

/**
 * The items without thoughts that can't go back, because they were neither sealed nor told: a provider that keeps nothing
 * wouldn't find them by their ids, nor what it asks for beside the others'.
 */
function withoutLostThoughts(items: readonly JsonRecord[]): readonly JsonRecord[] {
  const isLost = (item: JsonRecord) =>
    isThought(item) && typeof item.encrypted_content !== "string" && textsOf(item, "reasoning_text") === "";
  if (!items.some(isLost)) return items;
  return items.filter((item) => !isLost(item)).map(({ id: _, ...item }) => item);
}

/** Whether items say more than a text with calls behind it. */
function isMore(items: readonly JsonRecord[]): boolean {
  return items.some(({ type, phase }, at) =>
    type !== "function_call" && (type !== "message" || phase !== undefined || at > 0)
  );
}

function withoutNulls(item: JsonRecord): JsonRecord {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== null));
}

function textsOf({ content }: JsonRecord, type: string): string {
  const parts = Array.isArray(content) ? content.filter(isRecord).filter((part) => part.type === type) : [];
  return parts.map(({ text, refusal }) => String(text ?? refusal ?? "")).join("");
}
