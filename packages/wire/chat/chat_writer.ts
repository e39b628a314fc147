import { readUsage } from "./usage.ts";
import type { Usage } from "@tare/messages";
import { anchorOf } from "../anchor_of.ts";
import { ApiError } from "../api_error.ts";
import { isRecord, type JsonRecord } from "../json_record.ts";
import { joinBytes } from "../json_spans.ts";
import { mergeDelta } from "./merge_delta.ts";
import { type RawEvent, splitEvents, SseSplitter } from "../sse_splitter.ts";
import { sumUsage } from "../sum_usage.ts";
import type { HiddenItems, RecallCall, TurnWriter, TurnWriterOptions, WireReply } from "../wire_format.ts";

type Fields = JsonRecord;

/** A call with all its fields. */
interface WireCall extends Fields {
  readonly function: { readonly name?: string; readonly arguments: string };
}

/** Passes on the chat completions of one turn. What isn't ours to change keeps its bytes. */
export class ChatWriter implements TurnWriter {
  readonly #options: TurnWriterOptions;
  readonly #replies: { readonly message: Fields; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** The message of the reply that is being read, and its calls by their index in it. */
  #message: Fields = {};
  #calls = new Map<number, WireCall>();
  #usage: unknown;
  /** Sum over the turn's replies, in the upstream's own fields. */
  #usageSum: unknown;
  /** What a stream's first chunk says of all. */
  #envelope: Fields = {};
  #held: Uint8Array<ArrayBuffer>[] = [];
  #holds = false;
  #ended = false;
  /** Events that were passed on before anybody read them. */
  #unread: Uint8Array<ArrayBuffer>[] = [];
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** A writer for one turn. */
  constructor(options: TurnWriterOptions) {
    this.#options = options;
  }

  /** Takes bytes of a stream and gives those for the client. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#passesWhole(whole)) {
      if (this.#options.recall) this.#unread.push(whole);
      return whole.length > 0 ? [whole] : [];
    }
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Whether a piece of a stream holds nothing that must be known, or hidden, as soon as it comes. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#replies.length > 0 || this.#holds || this.#calls.size > 0 || this.#envelope.id === undefined) {
      return false;
    }
    const text = decoder.decode(bytes);
    return !WATCHED.some((word) => text.includes(word)) &&
      !(this.#options.hidesUsage && text.includes('"usage"'));
  }

  /** Reads what was passed on unread: it is part of a reply that turned out to be worth knowing. */
  #readUnread(): void {
    for (const { data } of this.#unread.flatMap(splitEvents)) {
      const chunk = data === undefined ? undefined : readChunk(data);
      const choice: unknown = Array.isArray(chunk?.choices) ? chunk.choices[0] : undefined;
      if (isRecord(choice) && isRecord(choice.delta)) {
        this.#message = mergeDelta(this.#message, choice.delta);
      }
    }
    this.#unread = [];
  }

  /** The stream has ended. */
  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#held.push(...this.#pass(rest));
    const calls = [...this.#calls].sort(([a], [b]) => a - b).map(([, call]) => call);
    return this.#take({ ...this.#message, ...(calls.length > 0 && { tool_calls: calls }) });
  }

  /** Takes a whole answer. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    const body: unknown = JSON.parse(decoder.decode(bytes));
    this.#whole = bytes;
    this.#usage = isRecord(body) ? body.usage : undefined;
    const choice = isRecord(body) && Array.isArray(body.choices) ? body.choices[0] : undefined;
    const message = isRecord(choice) && isRecord(choice.message) ? choice.message : {};
    return this.#take(message);
  }

  /** The rest of the stream, or the answer. */
  finish(): Uint8Array<ArrayBuffer> {
    if (this.#whole.length === 0) return joinBytes(this.#held);
    const last = this.#replies.at(-1);
    if (!last || (this.#replies.length === 1 && last.reply.recalls.length === 0)) return this.#whole;
    const body = JSON.parse(decoder.decode(this.#whole));
    const calls = this.#clientCalls(last.message);
    const { tool_calls: _, ...message } = last.message;
    const [choice] = body.choices;
    body.choices[0] = {
      ...choice,
      message: { ...message, content: this.#text(), ...(calls.length > 0 && { tool_calls: calls }) },
      ...(calls.length === 0 && choice.finish_reason === "tool_calls" && { finish_reason: "stop" }),
    };
    if (isRecord(body.usage)) body.usage = this.#usageSum;
    return encoder.encode(JSON.stringify(body));
  }

  /** An error in the stream. */
  fail(message: string): Uint8Array<ArrayBuffer> {
    const body = new ApiError(502, message, { code: "upstream_failed" }).body();
    return encoder.encode(`data: ${JSON.stringify(body)}\n\n`);
  }

  /** The replies and answers that stand in place of the one message that the client knows. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    const last = this.#replies.at(-1);
    if (!last || !this.#replies.some(({ reply }) => reply.recalls.length > 0)) return [];
    const calls = this.#clientCalls(last.message);
    const known = {
      role: "assistant",
      content: this.#text(),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
    const items = this.#replies.flatMap(({ reply }, at) => [...reply.items, ...answers[at] ?? []]);
    return [{ anchor: anchorOf(known as Parameters<typeof anchorOf>[0]), replaces: true, items }];
  }

  /** All that the client was told. */
  #text(): string | null {
    const texts = this.#replies.map(({ message }) => message.content).filter((text) =>
      typeof text === "string"
    );
    return texts.length > 0 ? texts.join("") : null;
  }

  #isRecall(call: unknown): boolean {
    const { recall } = this.#options;
    return recall !== undefined && isRecord(call) && isRecord(call.function) && call.function.name === recall;
  }

  #clientCalls({ tool_calls: calls }: Fields): unknown[] {
    return Array.isArray(calls) ? calls.filter((call) => !this.#isRecall(call)) : [];
  }

  #take(message: Fields): WireReply {
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls as WireCall[] : [];
    const recalls = calls.filter((call) => this.#isRecall(call)).map((call): RecallCall => ({
      id: String(call.id ?? ""),
      arguments: String(call.function.arguments ?? ""),
    }));
    const usage: Usage | undefined = readUsage(this.#usage);
    const reply: WireReply = {
      ...(usage && { usage }),
      recalls,
      callsClient: calls.length > recalls.length,
      items: [JSON.stringify({ role: "assistant", ...message })],
    };
    this.#replies.push({ message, reply });
    this.#usageSum = sumUsage(this.#usageSum, this.#usage);
    this.#ended = true;
    return reply;
  }

  /** How a reply that goes on ended is nobody's business. */
  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#held = [];
    this.#holds = false;
    this.#message = {};
    this.#calls = new Map();
    this.#usage = undefined;
    this.#splitter = new SseSplitter();
  }

  /** The bytes of an event that the client may see now. */
  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const { bytes, data } = event;
    // Clients leave when they see it; what the call cost must be known by then.
    if (data === "[DONE]") this.#holds = true;
    const chunk = data === undefined || data === "[DONE]" ? undefined : readChunk(data);
    const seen = chunk ? this.#passChunk(chunk, bytes) : [bytes];
    if (!this.#holds) return seen;
    this.#held.push(...seen);
    return [];
  }

  #passChunk(chunk: Fields, bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#readUnread();
    const { hidesUsage } = this.#options;
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    const choice: unknown = choices[0];
    const later = this.#replies.length > 0;
    const first = this.#envelope;
    if (!later && chunk.id !== undefined && first.id === undefined) this.#envelope = { id: chunk.id };
    let changed: Fields | undefined = later ? { ...chunk, ...this.#envelope } : undefined;
    if (isRecord(chunk.usage)) {
      this.#usage = chunk.usage;
      if (hidesUsage && choices.length === 0) return [];
      if (later) changed = { ...changed, usage: sumUsage(this.#usageSum, chunk.usage) };
    } else if (hidesUsage && chunk.usage === null) {
      // Upstreams that are asked for usage say null in all chunks but the last.
      const { usage: _, ...rest } = changed ?? chunk;
      changed = rest;
    }
    if (isRecord(choice)) {
      const delta = isRecord(choice.delta) ? choice.delta : {};
      const shown = this.#takeDelta(delta, later);
      const ends = typeof choice.finish_reason === "string";
      const recalled = [...this.#calls.values()].some((call) => this.#isRecall(call));
      if (shown === undefined && !ends) return [];
      if (shown !== delta || (ends && recalled)) {
        const { tool_calls: _, ...rest } = delta;
        const client = [...this.#calls.values()].some((call) => !this.#isRecall(call));
        const finish = ends && recalled && !client ? "stop" : choice.finish_reason;
        const seen = { ...choice, delta: shown ?? rest, finish_reason: finish };
        changed = { ...(changed ?? chunk), choices: [seen, ...choices.slice(1)] };
      }
      if (ends && recalled) this.#holds = true;
    }
    return [changed ? encoder.encode(`data: ${JSON.stringify(changed)}\n\n`) : bytes];
  }

  /** Reads a delta and gives what the client may see of it; nothing if it may see nothing. */
  #takeDelta(delta: Fields, later: boolean): Fields | undefined {
    const { tool_calls: calls, role, ...fields } = delta;
    this.#message = mergeDelta(this.#message, fields);
    const withoutRole = later ? fields : { ...(role !== undefined && { role }), ...fields };
    if (!Array.isArray(calls)) {
      return later && role !== undefined ? (isEmpty(fields) ? undefined : fields) : delta;
    }
    const seen: unknown[] = [];
    let moved = false;
    for (const [at, call] of calls.entries()) {
      if (!isRecord(call)) continue;
      const index = typeof call.index === "number" ? call.index : at;
      const known = this.#takeCall(index, call);
      if (this.#isRecall(known)) {
        moved = true;
        continue;
      }
      const shift = [...this.#calls].filter(([other, call]) => other < index && this.#isRecall(call)).length;
      if (shift > 0) moved = true;
      seen.push(shift > 0 ? { ...call, index: index - shift } : call);
    }
    if (!moved) return later && role !== undefined ? { ...fields, tool_calls: calls } : delta;
    if (seen.length > 0) return { ...withoutRole, tool_calls: seen };
    return isEmpty(withoutRole) ? undefined : withoutRole;
  }

  #takeCall(index: number, { index: _, id, type, function: called, ...fields }: Fields): WireCall {
    const before = this.#calls.get(index) ?? { function: { arguments: "" } };
    const { name, arguments: text } = isRecord(called) ? called : {};
    const call: WireCall = {
      ...mergeDelta(before, fields),
      // Some providers repeat id, type and name in each delta.
      ...(typeof id === "string" && id !== "" && { id }),
      type: typeof type === "string" ? type : before.type ?? "function",
      function: {
        ...before.function,
        ...(typeof name === "string" && name !== "" && { name }),
        arguments: before.function.arguments + (typeof text === "string" ? text : ""),
      },
    };
    this.#calls.set(index, call);
    return call;
  }
}

/** What marks a chunk that says more than text: calls, an end, usage. */
const WATCHED: readonly string[] = [
  '"tool_calls"',
  '"finish_reason":"',
  '"finish_reason": "',
  '"usage":{',
  '"usage": {',
  "[DONE]",
];

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function readChunk(data: string): Fields | undefined {
  try {
    const chunk: unknown = JSON.parse(data);
    return isRecord(chunk) ? chunk : undefined;
  } catch {
    // Whatever it is, the client gets it as it came.
    return undefined;
  }
}

function isEmpty(fields: Fields): boolean {
  return Object.values(fields).every((value) => value === null || value === undefined || value === "");
}
