import { anchorOf } from "../anchor_of.ts";
import { asRecord, isRecord, type JsonRecord } from "../json_record.ts";
import { joinBytes } from "../json_spans.ts";
import type { HiddenItems, RecallCall, TurnWriter, TurnWriterOptions, WireReply } from "../protocol.ts";
import { type RawEvent, splitEvents, SseSplitter } from "../sse_splitter.ts";
import { errorBody } from "./error_body.ts";
import { readMessage } from "./read_message.ts";
import { readStreamedBlocks } from "./streamed_blocks.ts";
import { readMessagesUsage } from "./usage.ts";

/** Passes on the replies of one turn as one. What isn't ours to change keeps its bytes. */
export class MessagesTurnWriter implements TurnWriter {
  readonly #recall: string | undefined;
  readonly #keepsText: boolean;
  readonly #replies: { readonly blocks: readonly JsonRecord[]; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** What was read of the reply that is being streamed, if it may have to be known. */
  #read: Uint8Array<ArrayBuffer>[] = [];
  /** Indexes of its recalls. */
  #recalls = new Set<number>();
  #callsClient = false;
  /** What it told of its tokens, in the upstream's own fields. */
  #usage: JsonRecord = {};
  #stop: unknown;
  /** Its last events: clients leave when they see them, and what the call cost must be known by then. */
  #held: RawEvent[] = [];
  #ended = false;
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** A writer for one turn. */
  constructor({ recall, keepsText = false }: Pick<TurnWriterOptions, "recall" | "keepsText">) {
    this.#recall = recall;
    this.#keepsText = keepsText;
  }

  /** Takes bytes of a stream and gives those for the client. */
  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#recall !== undefined || this.#keepsText) this.#read.push(whole);
    if (this.#passesWhole(whole)) return whole.length > 0 ? [whole] : [];
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Whether a piece of a stream holds only what a client may see as it is. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#replies.length > 0 || this.#recalls.size > 0 || this.#held.length > 0) return false;
    const text = decoder.decode(bytes);
    return !WATCHED.some((word) => text.includes(word));
  }

  /** The stream has ended. */
  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#held.push(...this.#pass(rest).map((bytes) => ({ bytes })));
    const isKnown = this.#recalls.size > 0 || this.#replies.length > 0 || this.#keepsText;
    return this.#take(isKnown ? readStreamedBlocks(splitEvents(joinBytes(this.#read))) : []);
  }

  /** Takes a whole answer. */
  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    this.#begin();
    const body = asRecord(JSON.parse(decoder.decode(bytes)));
    this.#whole = bytes;
    this.#usage = asRecord(body?.usage) ?? {};
    this.#stop = body?.stop_reason;
    const blocks = Array.isArray(body?.content) ? body.content.filter(isRecord) : [];
    this.#callsClient = blocks.some((block) => isCall(block) && !this.#isRecall(block));
    return this.#take(blocks);
  }

  /** The rest of the stream, or the answer. */
  finish(): Uint8Array<ArrayBuffer> {
    const changed = this.#replies.some(({ reply }) => reply.recalls.length > 0);
    if (this.#whole.length > 0) {
      if (!changed) return this.#whole;
      const body = JSON.parse(decoder.decode(this.#whole));
      return encoder.encode(JSON.stringify({ ...this.#ending(body), content: this.#visible() }));
    }
    return joinBytes(this.#held.map((event) => {
      const data = readData(event);
      if (!changed || data?.type !== "message_delta") return event.bytes;
      const usage = { ...this.#usage, ...asRecord(data.usage) };
      return write({ ...data, delta: this.#ending(asRecord(data.delta) ?? {}), usage });
    }));
  }

  /** An error in the stream. */
  fail(message: string): Uint8Array<ArrayBuffer> {
    return write({ ...errorBody(502, message) });
  }

  /** The replies and answers that stand in place of the one message that the client knows. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    if (!this.#replies.some(({ reply }) => reply.recalls.length > 0)) return [];
    const [part] = readMessage({ role: "assistant", content: this.#visible() });
    if (!part) return [];
    const items = this.#replies.flatMap(({ reply }, at) => [...reply.items, ...answers[at] ?? []]);
    return [{ anchor: anchorOf(part.message), replaces: true, items }];
  }

  /** What says why a message ended: if its only calls aren't the client's, it called nothing. */
  #ending(fields: JsonRecord): JsonRecord {
    const stops = fields.stop_reason === "tool_use" && !this.#callsClient;
    return stops ? { ...fields, stop_reason: "end_turn" } : fields;
  }

  #visible(): JsonRecord[] {
    return this.#replies.flatMap(({ blocks }) => blocks.filter((block) => !this.#isRecall(block)));
  }

  #isRecall(block: unknown): boolean {
    return this.#recall !== undefined && isCall(block) && block.name === this.#recall;
  }

  #take(blocks: readonly JsonRecord[]): WireReply {
    const recalls = blocks.filter((block) => this.#isRecall(block)).map((block): RecallCall => ({
      id: String(block.id ?? ""),
      arguments: JSON.stringify(block.input ?? {}),
    }));
    const usage = readMessagesUsage(this.#usage);
    const reply: WireReply = {
      ...(usage && { usage }),
      ...(typeof this.#stop === "string" && { finish: this.#stop }),
      recalls,
      callsClient: this.#callsClient,
      items: blocks.length > 0 ? [JSON.stringify({ role: "assistant", content: blocks })] : [],
      ...(this.#keepsText &&
        { text: blocks.map(({ text }) => typeof text === "string" ? text : "").join("\n") }),
    };
    this.#replies.push({ blocks, reply });
    this.#ended = true;
    return reply;
  }

  /** The bytes of an event that the client may see now. */
  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const data = readData(event);
    const later = this.#replies.length > 0;
    switch (data?.type) {
      case "message_start":
        this.#usage = asRecord(asRecord(data.message)?.usage) ?? {};
        // A reply that goes on with a turn begins nothing for the client.
        return later ? [] : [event.bytes];
      case "message_delta":
        this.#usage = { ...this.#usage, ...withoutNulls(asRecord(data.usage) ?? {}) };
        this.#stop = asRecord(data.delta)?.stop_reason ?? this.#stop;
        this.#held.push(event);
        return [];
      case "content_block_start":
      case "content_block_delta":
      case "content_block_stop":
        return this.#passBlock(data, event);
      default:
        if (this.#held.length === 0 && data?.type !== "message_stop") return [event.bytes];
        this.#held.push(event);
        return [];
    }
  }

  #passBlock(data: JsonRecord, { bytes }: RawEvent): Uint8Array<ArrayBuffer>[] {
    const { index, content_block: block } = data;
    if (typeof index !== "number") return [bytes];
    if (block !== undefined) {
      if (this.#isRecall(block)) this.#recalls.add(index);
      else this.#callsClient ||= isCall(block);
    }
    if (this.#recalls.has(index)) return [];
    const hidden = [...this.#recalls].filter((recall) => recall < index).length;
    const shift = this.#visible().length - hidden;
    return [shift === 0 ? bytes : write({ ...data, index: index + shift })];
  }

  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#callsClient = false;
    this.#recalls = new Set();
    this.#read = [];
    this.#held = [];
    this.#usage = {};
    this.#stop = undefined;
    this.#splitter = new SseSplitter();
  }
}

/** What marks an event that says more than a piece of a block. */
const WATCHED: readonly string[] = ['"content_block_start"', '"message_'];

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function isCall(block: unknown): block is JsonRecord {
  return isRecord(block) && block.type === "tool_use";
}

function withoutNulls(fields: JsonRecord): JsonRecord {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function readData({ data }: RawEvent): JsonRecord | undefined {
  try {
    return data === undefined ? undefined : asRecord(JSON.parse(data));
  } catch {
    // Whatever it is, the client gets it as it came.
    return undefined;
  }
}

function write(data: JsonRecord): Uint8Array<ArrayBuffer> {
  return encoder.encode(`event: ${String(data.type)}\ndata: ${JSON.stringify(data)}\n\n`);
}
