import type { AssistantMessage, FinishReason, FunctionToolCall, ModelEvent, Usage } from "@tare/messages";
import { freeCallId } from "@tare/messages/internal";
import { readUsage } from "../chat/chat_completions.ts";
import { asRecord, isRecord, type JsonRecord, withoutNulls } from "../json.ts";
import { MAX_CALLS, ReplyTooLong } from "../sse.ts";
import { isThought, summary } from "./responses_protocol.ts";

/** A response. */
export interface ResponseBody {
  /** `resp_` and 32 hexadecimal digits, repeated in its items' ids. */
  readonly id: string;
  readonly object: "response";
  /** In seconds since 1970. */
  readonly created_at: number;
  /** In seconds since 1970. */
  readonly completed_at: number | null;
  readonly status: "in_progress" | "completed" | "incomplete" | "failed";
  readonly background: false;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly incomplete_details: { readonly reason: "max_output_tokens" | "content_filter" } | null;
  readonly instructions: string | null;
  readonly max_output_tokens: number | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly model: string;
  /** Messages and reasoning with at most one text each, and calls for the client. */
  readonly output: readonly ({
    readonly id: string;
    readonly type: "message";
    readonly role: "assistant";
    readonly status: Exclude<ResponseBody["status"], "failed">;
    readonly content: readonly {
      readonly type: "output_text";
      readonly text: string;
      readonly annotations: readonly never[];
      readonly logprobs: readonly never[];
    }[];
  } | {
    readonly id: string;
    readonly type: "reasoning";
    readonly status: Exclude<ResponseBody["status"], "failed">;
    /** Sealed reasoning, if requested. */
    readonly encrypted_content?: string;
    readonly summary: readonly { readonly type: "summary_text"; readonly text: string }[];
  } | {
    readonly id: string;
    readonly type: "function_call";
    readonly status: Exclude<ResponseBody["status"], "failed">;
    /** Id that the result repeats. */
    readonly call_id: string;
    readonly name: string;
    readonly arguments: string;
  })[];
  readonly parallel_tool_calls: boolean;
  readonly previous_response_id: string | null;
  readonly store: boolean;
  readonly temperature: number | null;
  readonly text: { readonly format: { readonly type: "text" } };
  readonly tool_choice: string | JsonRecord;
  readonly tools: readonly JsonRecord[];
  readonly top_p: number | null;
  readonly truncation: "disabled";
  readonly usage: {
    readonly input_tokens: number;
    readonly input_tokens_details: { readonly cached_tokens: number };
    readonly output_tokens: number;
    readonly output_tokens_details: { readonly reasoning_tokens: number };
    readonly total_tokens: number;
  } | null;
  readonly user: string | null;
}

type ItemStatus = Exclude<ResponseBody["status"], "failed">;
type OutputItem = ResponseBody["output"][number];

type ResponseEvent = ReturnType<ResponseEventWriter["begin"]>[number];

type ResponsePart = Parameters<ResponseEventWriter["add"]>[0];

/**
 * Writes a response's events in their documented order. Each stretch of reasoning or text becomes an item;
 * calls are last. The final event contains the whole {@linkcode ResponseBody}.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { ResponseEventWriter } from "@tare/wire/internal";
 *
 * const id = `resp_${"0".repeat(32)}`;
 * const writer = new ResponseEventWriter(ResponseEventWriter.empty({ model: "m" }, { id, createdAtMs: 0 }));
 * const usage = { promptTokens: 9, cachedTokens: 0, outputTokens: 2 };
 * const events = [
 *   ...writer.begin(),
 *   ...writer.add({ type: "text", text: "Hello." }),
 *   ...writer.end({ finish: "stop", usage, endedAtMs: 0 }),
 * ];
 * assertEquals([events[0]?.type, events.at(-1)?.type], ["response.created", "response.completed"]);
 * assertEquals(writer.response.output.map(({ type }) => type), ["message"]);
 * ```
 */
export class ResponseEventWriter {
  #response: ResponseBody;
  #sequence = 0;
  #open: { readonly part: ResponsePart; readonly id: string } | undefined;

  constructor(draft: ResponseBody) {
    this.#response = draft;
  }

  static empty(
    request: {
      readonly model: string;
      readonly instructions?: string | null;
      readonly max_output_tokens?: number | null;
      readonly metadata?: Readonly<Record<string, string>> | null;
      readonly previous_response_id?: string | null;
      /** Whether it is stored. Default: true. */
      readonly store?: boolean | null;
      readonly user?: string | null;
      readonly temperature?: number | null;
      readonly top_p?: number | null;
      readonly tools?: readonly JsonRecord[] | null;
      readonly tool_choice?: string | JsonRecord | null;
      readonly parallel_tool_calls?: boolean | null;
    },
    { id, createdAtMs }: { readonly id: string; readonly createdAtMs: number },
  ): ResponseBody {
    return {
      id,
      object: "response",
      created_at: toSeconds(createdAtMs),
      completed_at: null,
      status: "in_progress",
      background: false,
      error: null,
      incomplete_details: null,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      metadata: request.metadata ?? {},
      model: request.model,
      output: [],
      parallel_tool_calls: request.parallel_tool_calls ?? true,
      previous_response_id: request.previous_response_id ?? null,
      store: request.store ?? true,
      temperature: request.temperature ?? null,
      text: { format: { type: "text" } },
      tool_choice: request.tool_choice ?? "auto",
      tools: request.tools ?? [],
      top_p: request.top_p ?? null,
      truncation: "disabled",
      usage: null,
      user: request.user ?? null,
    };
  }

  static hexOf(id: string): string | undefined {
    return /^(?:resp|msg|rs|fc)_([0-9a-f]{32})(?:_\d+)?$/.exec(id)?.[1];
  }

  get response(): ResponseBody {
    return this.#response;
  }

  begin(): {
    readonly type: string;
    /** Position in the stream, from 0. */
    readonly sequence_number: number;
    readonly [field: string]: unknown;
  }[] {
    const { response } = this;
    return [this.#event("created", { response }), this.#event("in_progress", { response })];
  }

  add(part: {
    readonly type: "text" | "reasoning";
    readonly text: string;
    /** Sealed reasoning. Default: none. */
    readonly sealed?: string | undefined;
  }): ReturnType<ResponseEventWriter["begin"]> {
    const { type, text, sealed } = part;
    const events: ResponseEvent[] = [];
    if (this.#open?.part.type !== type) events.push(...this.#finish("completed"), ...this.#start(type));
    if (!this.#open) return events;
    const { id, part: before } = this.#open;
    this.#open = { id, part: { type, text: before.text + text, sealed } };
    const kind = KINDS[type];
    return [...events, this.#place(kind, `${kind.text}.delta`, id, { delta: text, ...kind.textFields })];
  }

  end({ finish, calls = [], usage, endedAtMs }: {
    readonly finish: "stop" | "tool_calls" | "length" | "content_filter";
    /** Default: none. */
    readonly calls?: readonly FunctionToolCall[];
    readonly usage: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens" | "reasoningTokens">;
    /** Milliseconds since 1970. */
    readonly endedAtMs: number;
  }): ReturnType<ResponseEventWriter["begin"]> {
    const isWhole = finish === "stop" || finish === "tool_calls";
    const status = isWhole ? "completed" : "incomplete";
    const events = [...this.#finish(status), ...calls.flatMap((call) => this.#call(call))];
    this.#response = {
      ...this.#response,
      status,
      completed_at: isWhole ? toSeconds(endedAtMs) : null,
      incomplete_details: isWhole
        ? null
        : { reason: finish === "length" ? "max_output_tokens" : "content_filter" },
      usage: {
        input_tokens: usage.promptTokens,
        input_tokens_details: { cached_tokens: usage.cachedTokens },
        output_tokens: usage.outputTokens,
        output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
        total_tokens: usage.promptTokens + usage.outputTokens,
      },
    };
    return [...events, this.#event(status, { response: this.#response })];
  }

  fail(
    { status, message }: { readonly status: number; readonly message: string },
  ): ReturnType<ResponseEventWriter["begin"]> {
    const events = this.#finish("incomplete");
    // Codes defined by the format.
    const code = status === 429 ? "rate_limit_exceeded" : status === 400 ? "invalid_prompt" : "server_error";
    this.#response = { ...this.#response, status: "failed", error: { code, message } };
    return [...events, this.#event("failed", { response: this.#response })];
  }

  #call({ id: call_id, function: { name, arguments: text } }: FunctionToolCall): ResponseEvent[] {
    const { output } = this.#response;
    const index = output.length;
    const id = `fc_${ResponseEventWriter.hexOf(this.#response.id)}_${index}`;
    const place = { item_id: id, output_index: index };
    const makeItem = (
      status: ItemStatus,
      text: string,
    ): Extract<OutputItem, { readonly type: "function_call" }> => ({
      id,
      type: "function_call",
      status,
      call_id,
      name,
      arguments: text,
    });
    const item = makeItem("completed", text);
    this.#response = { ...this.#response, output: [...output, item] };
    return [
      this.#event("output_item.added", { output_index: index, item: makeItem("in_progress", "") }),
      this.#event("function_call_arguments.delta", { ...place, delta: text }),
      this.#event("function_call_arguments.done", { ...place, name, arguments: text }),
      this.#event("output_item.done", { output_index: index, item }),
    ];
  }

  #start(type: ResponsePart["type"]): ResponseEvent[] {
    const kind = KINDS[type];
    const index = this.#response.output.length;
    const id = `${kind.prefix}_${ResponseEventWriter.hexOf(this.#response.id)}_${index}`;
    this.#open = { id, part: { type, text: "" } };
    return [
      this.#event("output_item.added", { output_index: index, item: kind.makeItem(id, "in_progress") }),
      this.#place(kind, `${kind.part}.added`, id, { part: kind.makePart("") }),
    ];
  }

  #finish(status: ItemStatus): ResponseEvent[] {
    if (!this.#open) return [];
    const { id, part: { type, text, sealed } } = this.#open;
    this.#open = undefined;
    const kind = KINDS[type];
    const { output } = this.#response;
    const item = kind.makeItem(id, status, { text, sealed });
    const events = [
      this.#place(kind, `${kind.text}.done`, id, { text, ...kind.textFields }),
      this.#place(kind, `${kind.part}.done`, id, { part: kind.makePart(text) }),
      this.#event("output_item.done", { output_index: output.length, item }),
    ];
    this.#response = { ...this.#response, output: [...output, item] };
    return events;
  }

  #place(kind: Kind, type: string, id: string, fields: object): ResponseEvent {
    const { output } = this.#response;
    return this.#event(type, { item_id: id, output_index: output.length, [kind.index]: 0, ...fields });
  }

  #event(type: string, fields: object): ResponseEvent {
    return { type: `response.${type}`, sequence_number: this.#sequence++, ...fields };
  }
}

interface Kind {
  readonly prefix: string;
  readonly index: string;
  readonly part: string;
  readonly text: string;
  readonly textFields: object;
  readonly makePart: (text: string) => object;
  readonly makeItem: (
    id: string,
    status: ItemStatus,
    part?: Pick<ResponsePart, "text" | "sealed">,
  ) => OutputItem;
}

const LISTS = { annotations: [], logprobs: [] } as const;

const KINDS: Readonly<Record<ResponsePart["type"], Kind>> = {
  text: {
    prefix: "msg",
    index: "content_index",
    part: "content_part",
    text: "output_text",
    textFields: { logprobs: [] },
    makePart: (text) => ({ type: "output_text", text, ...LISTS }),
    makeItem: (id, status, part) => ({
      id,
      type: "message",
      role: "assistant",
      status,
      content: part === undefined ? [] : [{ type: "output_text", text: part.text, ...LISTS }],
    }),
  },
  reasoning: {
    prefix: "rs",
    index: "summary_index",
    part: "reasoning_summary_part",
    text: "reasoning_summary_text",
    textFields: {},
    makePart: (text) => ({ type: "summary_text", text }),
    makeItem: (id, status, part) => ({
      id,
      type: "reasoning",
      status,
      ...(part?.sealed !== undefined && { encrypted_content: part.sealed }),
      summary: part === undefined ? [] : [{ type: "summary_text", text: part.text }],
    }),
  },
};

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** Assembles a reply from a response or its events. */
export class ResponseAssembler {
  /** By output index; incomplete ones as announced. */
  readonly #items = new Map<number, JsonRecord>();
  /** Number of each call by output index. */
  readonly #calls = new Map<number, number>();
  #response: JsonRecord | undefined;
  #summaries = 0;
  #isReply = false;

  /** Whether an event belonged to a response. */
  get isReply(): boolean {
    return this.#isReply;
  }

  /** Reads one event. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS} calls. */
  read(value: unknown): ModelEvent[] {
    const event = asRecord(value) ?? {};
    const { object, type = "" } = event;
    if (object === "response") this.#end(event);
    this.#isReply ||= object === "response" || String(type).startsWith("response.");
    if (ENDS.includes(type)) this.#end(asRecord(event.response) ?? {});
    return this.#take(event);
  }

  /** Returns the complete reply; `undefined` before its end. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (!this.#response) return undefined;
    const { usage: counted, incomplete_details: cut } = this.#response;
    const usage = readUsage(counted, { ...this.#response, output: [...this.#items.values()] });
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
    // Some servers omit items from the last event.
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
      const id = freeCallId(String(item.call_id ?? ""), used);
      used.add(id);
      const input = String(item.arguments ?? "").trim() || "{}";
      calls.push({ id, type: "function", function: { name: String(item.name ?? ""), arguments: input } });
      // The call contains the other fields.
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
          throw new ReplyTooLong(`it makes more than ${MAX_CALLS} tool calls`);
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

const CUTS: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  content_filter: "content_filter",
};

/** Removes trailing reasoning, which the provider refuses. */
function withoutLooseThoughts(items: readonly JsonRecord[]): readonly JsonRecord[] {
  return items.slice(0, items.findLastIndex((item) => !isThought(item)) + 1);
}

/**
 * Removes reasoning without content, which a provider without storage can't find by id, and the others' ids,
 * which would require it.
 */
function withoutLostThoughts(items: readonly JsonRecord[]): readonly JsonRecord[] {
  const isLost = (item: JsonRecord) =>
    isThought(item) && typeof item.encrypted_content !== "string" && textsOf(item, "reasoning_text") === "";
  if (!items.some(isLost)) return items;
  return items.filter((item) => !isLost(item)).map(({ id: _, ...item }) => item);
}

/** Returns whether the items are more than a text with calls. */
function isMore(items: readonly JsonRecord[]): boolean {
  return items.some(({ type, phase }, at) =>
    type !== "function_call" && (type !== "message" || phase !== undefined || at > 0)
  );
}

function textsOf({ content }: JsonRecord, type: string): string {
  const parts = Array.isArray(content) ? content.filter(isRecord).filter((part) => part.type === type) : [];
  return parts.map(({ text, refusal }) => String(text ?? refusal ?? "")).join("");
}
