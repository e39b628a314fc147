import { contentText } from "@tare/messages";
import { anchorOf } from "../anchor_of.ts";
import { readUsage } from "../chat/usage.ts";
import { isRecord, type JsonRecord } from "../json_record.ts";
import { joinBytes } from "../json_spans.ts";
import type { HiddenItems, ItemPart, TurnWriter, TurnWriterOptions, WireReply } from "../protocol.ts";
import { type RawEvent, splitEvents, SseSplitter } from "../sse_splitter.ts";

/** What a writer needs of its protocol. */
export interface ResponsesTurnWriterOptions extends TurnWriterOptions {
  /** The messages of an item. */
  readonly readItem: (item: unknown) => readonly ItemPart[];
}

const TERMINAL = ["response.completed", "response.incomplete", "response.failed"];
const OPENING = ["response.created", "response.queued", "response.in_progress"];

/** Passes on the responses of one turn as one. What isn't ours to change keeps its bytes. */
export class ResponsesTurnWriter implements TurnWriter {
  readonly #options: ResponsesTurnWriterOptions;
  readonly #replies: { readonly items: readonly JsonRecord[]; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** Items of the reply that is being streamed, by their index. */
  #items = new Map<number, JsonRecord>();
  #recalls = new Set<number>();
  #last: JsonRecord = {};
  /** Number of the next event for the client. */
  #sequence = 0;
  #held: RawEvent[] = [];
  #ended = false;
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** A writer for one turn. */
  constructor(options: ResponsesTurnWriterOptions) {
    this.#options = options;
  }

  /** Takes bytes of a stream and gives those for the client. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#passesWhole(whole)) return whole.length > 0 ? [whole] : [];
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Whether a piece of a stream holds only what a client may see as it is. Its events are counted. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#replies.length > 0 || this.#recalls.size > 0) return false;
    const text = decoder.decode(bytes);
    if (WATCHED.some((word) => text.includes(word))) return false;
    const last = text.lastIndexOf(SEQUENCE);
    const number = last < 0 ? NaN : parseInt(text.slice(last + SEQUENCE.length));
    if (Number.isSafeInteger(number)) this.#sequence = number + 1;
    return true;
  }

  /** The stream has ended. */
  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#pass(rest).forEach((bytes) => this.#held.push({ bytes }));
    const { output } = this.#last;
    const items = [...this.#items].sort(([a], [b]) => a - b).map(([, item]) => item);
    return this.#take(Array.isArray(output) && output.length >= items.length ? output : items);
  }

  /** Takes a whole answer. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    const body: unknown = JSON.parse(decoder.decode(bytes));
    this.#whole = bytes;
    this.#last = isRecord(body) ? body : {};
    return this.#take(Array.isArray(this.#last.output) ? this.#last.output : []);
  }

  /** The id by which the client knows the turn: a stream has told that of its first reply. */
  get id(): string | undefined {
    const streams = this.#whole.length === 0;
    return this.#replies.at(streams ? 0 : -1)?.reply.id;
  }

  /** The last event of the stream, or the answer. */
  finish(): Uint8Array<ArrayBuffer> {
    const changed = this.#replies.some(({ reply }) => reply.recalls.length > 0);
    const { id } = this;
    const response = changed
      ? { ...this.#last, ...(id !== undefined && { id }), output: this.#visible() }
      : undefined;
    if (this.#whole.length > 0) return response ? encoder.encode(JSON.stringify(response)) : this.#whole;
    return joinBytes(this.#held.map((event) => {
      const data = event.data === undefined ? undefined : readData(event.data);
      if (!response || !data || !TERMINAL.includes(String(data.type))) return event.bytes;
      return write({ ...data, response, sequence_number: this.#sequence++ });
    }));
  }

  /** An error in the stream. */
  fail(message: string): Uint8Array<ArrayBuffer> {
    const type = "error";
    return write({ type, code: "upstream_failed", message, param: null, sequence_number: this.#sequence++ });
  }

  /**
   * Each recall with its answer, before the item that follows it in the client's history; and all that the upstream
   * has seen in its own spelling, in place of what the client makes of it.
   */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    const hidden: HiddenItems[] = [];
    let open: string[] = [];
    const last = this.#replies.length - 1;
    if (!this.#replies.some(({ reply }) => reply.recalls.length > 0)) return hidden;
    const show = (item: JsonRecord, replaces: boolean) => {
      const [part] = this.#partsOf(item);
      if (!part || (!replaces && open.length === 0)) return;
      const items = replaces ? [...open, JSON.stringify(item)] : open;
      hidden.push({ anchor: anchorOf(part.message), replaces, items });
      open = [];
    };
    for (const [at, { items }] of this.#replies.entries()) {
      const recalls = items.filter((item) => this.#isRecall(item)).map((item) => JSON.stringify(item));
      if (at === last) {
        const seen = items.filter((item) => !this.#isRecall(item));
        const call = seen.find(isCall);
        if (seen[0] && seen[0] !== call) show(seen[0], false);
        open.push(...recalls, ...answers[at] ?? []);
        if (call) show(call, false);
        continue;
      }
      for (const item of items) {
        if (this.#isRecall(item)) open.push(JSON.stringify(item));
        else show(item, true);
      }
      open.push(...answers[at] ?? []);
    }
    return hidden;
  }

  #visible(): JsonRecord[] {
    return this.#replies.flatMap(({ items }) => items.filter((item) => !this.#isRecall(item)));
  }

  #partsOf(item: JsonRecord): readonly ItemPart[] {
    try {
      return this.#options.readItem(item);
    } catch {
      // The client may make of it what it can.
      return [];
    }
  }

  #textOf(item: JsonRecord): string[] {
    return this.#partsOf(item).map(({ message }) => contentText(message.content));
  }

  #isRecall(item: unknown): boolean {
    const { recall } = this.#options;
    return recall !== undefined && isCall(item) && item.name === recall;
  }

  #take(output: readonly unknown[]): WireReply {
    const items = output.filter(isRecord);
    for (const item of items) {
      const parts = this.#partsOf(item);
      if (typeof item.id === "string" && parts.length > 0) this.#options.seen?.(item.id, parts);
    }
    const recalls = items.filter((item) => this.#isRecall(item)).map((item) => ({
      id: String(item.call_id ?? ""),
      arguments: String(item.arguments ?? ""),
    }));
    const { id, status, usage: told } = this.#last;
    const usage = readUsage(told);
    const reply: WireReply = {
      ...(usage && { usage }),
      ...(typeof id === "string" && { id }),
      ...(typeof status === "string" && { finish: status }),
      recalls,
      callsClient: items.some((item) => CLIENT_CALLS.includes(item.type) && !this.#isRecall(item)),
      items: items.map((item) => JSON.stringify(item)),
      ...(this.#options.keepsText && { text: items.flatMap((item) => this.#textOf(item)).join("\n") }),
    };
    this.#replies.push({ items, reply });
    this.#ended = true;
    return reply;
  }

  /** The bytes of an event that the client may see now. */
  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const data = event.data === undefined ? undefined : readData(event.data);
    if (!data) return [event.bytes];
    const type = String(data.type);
    // A reply that goes on with a turn begins nothing for the client.
    if (OPENING.includes(type) && this.#replies.length > 0) return [];
    if (TERMINAL.includes(type)) {
      this.#last = isRecord(data.response) ? data.response : {};
      this.#held.push(event);
      return [];
    }
    return this.#passItem(data, event);
  }

  #passItem(data: JsonRecord, { bytes }: RawEvent): Uint8Array<ArrayBuffer>[] {
    const { output_index: index, item, type } = data;
    let shown = data;
    if (typeof index === "number") {
      if (isRecord(item)) this.#items.set(index, item);
      if (type === "response.output_item.added" && this.#isRecall(item)) this.#recalls.add(index);
      if (this.#recalls.has(index)) return [];
      const before = this.#visible().length - [...this.#recalls].filter((recall) => recall < index).length;
      if (before !== 0) shown = { ...shown, output_index: index + before };
    }
    const { sequence_number: sequence } = data;
    if (typeof sequence === "number") {
      if (sequence !== this.#sequence) shown = { ...shown, sequence_number: this.#sequence };
      this.#sequence++;
    }
    return [shown === data ? bytes : write(shown)];
  }

  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#last = {};
    this.#items = new Map();
    this.#recalls = new Set();
    this.#held = [];
    this.#splitter = new SseSplitter();
  }
}

/** What marks an event that says more than a piece of text. */
const WATCHED: readonly string[] = [
  '"response.output_item.',
  ...[...TERMINAL, ...OPENING].map((type) => `"${type}"`),
];
const SEQUENCE = '"sequence_number":';

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function readData(text: string): JsonRecord | undefined {
  try {
    const data: unknown = JSON.parse(text);
    return isRecord(data) ? data : undefined;
  } catch {
    // Whatever it is, the client gets it as it came.
    return undefined;
  }
}

function write(data: JsonRecord): Uint8Array<ArrayBuffer> {
  return encoder.encode(`event: ${String(data.type)}\ndata: ${JSON.stringify(data)}\n\n`);
}

function isCall(item: unknown): item is JsonRecord {
  return isRecord(item) && item.type === "function_call";
}

/** Calls that the client answers. */
const CLIENT_CALLS: readonly unknown[] = [
  "function_call",
  "custom_tool_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
  "computer_call",
];
