import { type Message, partsOfBlock, type ToolDefinition } from "@tare/messages";
import { holdsMedia, isMedia } from "@tare/messages/internal";
import { ApiError } from "../api_error.ts";
import { asRecord, editJson, isRecord, joinBytes, jsonBytes, type JsonRecord } from "../json.ts";
import {
  BEARER,
  type HiddenItems,
  type Protocol,
  type TurnWriter,
  type TurnWriterOptions,
  UnknownShape,
  type WireReply,
  type WireRequest,
} from "../protocol.ts";
import {
  argumentsMeaning,
  inOrder,
  isNothing,
  meaningfulFields,
  meaningfulParts,
  plainContent,
  statedFailure,
} from "../meaning.ts";
import { legalArguments } from "../legality.ts";
import { eventText, type RawEvent, splitEvents, SseSplitter } from "../sse.ts";
import { CallAssembler, mergeDelta, readUsage } from "./chat_completions.ts";
import { anchorOf, readCommonHints, readField, wholeTool } from "../request.ts";

/** OpenAI's chat completions, whose messages are the planner's own. */
export const CHAT_PROTOCOL: Protocol = {
  name: "chat",
  path: "/chat/completions",
  listField: "messages",
  replyFields: ["max_completion_tokens", "max_tokens"],
  minReplyTokens: 1,
  auth: BEARER,
  readHints(body, headers) {
    const count = readField(body, "n");
    return {
      ...readCommonHints(body, headers),
      isStateful: false,
      isDetached: typeof count === "number" && count > 1,
    };
  },
  readItem(value) {
    if (!isMessage(value)) throw new UnknownShape("a message is invalid in the chat-completions format");
    const plain = plainMessage(value);
    const message = plain.role === "tool"
      // Recalls return text only, so media are retained.
      ? {
        ...plain,
        ...statedFailure(plain.content, plain.failed),
        ...(holdsMedia(plain.content) && { keep: true }),
      }
      : plain;
    return [{ message, text: CONTENT, meaning: contentMeaning(value) }];
  },
  idPaths(value) {
    const { role, tool_calls: calls } = asRecord(value) ?? {};
    if (role === "tool") return [["tool_call_id"]];
    return Array.isArray(calls) ? calls.map((_, at) => ["tool_calls", at, "id"]) : [];
  },
  readTool(value) {
    if (isRecord(value) && typeof value.type === "string" && value.type !== "function") {
      return wholeTool(value);
    }
    if (!isTool(value)) throw new UnknownShape("a tool is invalid in the chat-completions format");
    return { definition: value, inFront: true };
  },
  writeMessage: (message) => JSON.stringify(message),
  writeAnswers: (answers) =>
    answers.map(({ id, text }) => JSON.stringify({ role: "tool", tool_call_id: id, content: text })),
  writeTool: (tool) => JSON.stringify(tool),
  forbidsToolPair: () => false,
  addedFields(request) {
    const options = usageOptions(request);
    return new Map(options && [[STREAM_OPTIONS, options]]);
  },
  writer: (request, options) =>
    new ChatTurnWriter({ ...options, hidesUsage: usageOptions(request) !== undefined }),
  refuse: (status, message, code) => new ApiError(status, message, { code }).toResponse(),
};

const CONTENT = ["content"];
const STREAM_OPTIONS = "stream_options";

function usageOptions(request: WireRequest): Uint8Array<ArrayBuffer> | undefined {
  const { bytes, fields, stream } = request;
  if (!stream) return undefined;
  const options = readField(request, STREAM_OPTIONS);
  const span = fields.get(STREAM_OPTIONS);
  if (!span || options === null) return encoder.encode('{"include_usage":true}');
  if (!isRecord(options) || options.include_usage === true) return undefined;
  const asks = { path: ["include_usage"], value: encoder.encode("true") };
  return editJson(bytes.subarray(span.start, span.end), [asks]);
}

const encoder = new TextEncoder();

/** Reasoning fields, which clients may omit. */
const THOUGHTS: readonly string[] = ["reasoning_content", "reasoning", "reasoning_details"];

/** Returns a message's meaning, without ids of calls. */
function contentMeaning(message: Message): unknown {
  const { role, content, tool_calls: calls, ...fields }: JsonRecord = { ...message };
  const parts = meaningfulParts(content);
  const called = Array.isArray(calls) ? calls.map(callMeaning) : [];
  // A message with only reasoning is identified by that.
  const thoughts = parts.length + called.length === 0 ? [] : THOUGHTS;
  const rest = meaningfulFields(fields, role === "tool" ? ["tool_call_id", ...thoughts] : thoughts);
  return { role, parts, called, rest: inOrder(rest) };
}

function callMeaning(call: unknown): unknown {
  const { id: _, index: __, function: called, ...fields } = asRecord(call) ?? {};
  const { name, arguments: args, ...more } = asRecord(called) ?? {};
  const rest = inOrder({ type: "function", ...meaningfulFields(fields), ...meaningfulFields(more) });
  return typeof args === "string" ? { name, arguments: argumentsMeaning(args), rest } : rest;
}

function plainMessage(message: Message): Message {
  const { content, tool_call_id: id, ...fields }: JsonRecord = { ...message };
  const answers = id !== undefined && { tool_call_id: id };
  const value = fields.role === "assistant" && isNothing(content) ? null : plainContent(content) ?? null;
  const plain = { ...meaningfulFields(fields), ...answers, content: withMedia(value) };
  return isMessage(plain) ? plain : message;
}

/** Converts any server's media to chat parts. */
function withMedia(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.flatMap((part) => {
    if (part?.type === "text") return part;
    const read = partsOfBlock(part);
    return read.some(isMedia) ? read : part;
  });
}

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"];

/** Checks the fields that the planner reads. */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value) || !ROLES.includes(value.role as string) || !isContent(value.content)) return false;
  const { role, content, name, reasoning_content, refusal, tool_calls: calls, tool_call_id } = value;
  const { failed, findsTools } = value;
  if (findsTools !== undefined || (failed !== undefined && typeof failed !== "boolean")) return false;
  if (![name, reasoning_content, refusal].every(isOptionalText)) return false;
  if (role === "tool") return typeof tool_call_id === "string" && content != null;
  if (role !== "assistant") return content != null || role === "function";
  return calls === undefined || (Array.isArray(calls) && calls.every(isCall));
}

function isCall(value: unknown): boolean {
  if (!isRecord(value) || typeof value.id !== "string") return false;
  const { type, custom, function: called } = value;
  return type === "custom"
    ? isRecord(custom) && typeof custom.name === "string" && typeof custom.input === "string"
    : isRecord(called) && typeof called.name === "string" && typeof called.arguments === "string";
}

function isContent(value: unknown): boolean {
  return isOptionalText(value) || (Array.isArray(value) && value.every(isPart));
}

/** Checks by type; other parts are accepted. */
const PARTS: Readonly<Record<string, (part: JsonRecord) => boolean>> = {
  text: ({ text }) => typeof text === "string",
  refusal: ({ refusal }) => typeof refusal === "string",
  image_url: ({ image_url: image }) => isRecord(image) || typeof image === "string",
  input_audio: ({ input_audio: audio }) => isRecord(audio) && typeof audio.data === "string",
  file: ({ file }) => isRecord(file) && isOptionalText(file.file_data),
};

function isPart(value: unknown): boolean {
  if (!isRecord(value) || typeof value.type !== "string") return false;
  return !Object.hasOwn(PARTS, value.type) || PARTS[value.type]!(value);
}

function isTool(value: unknown): value is ToolDefinition {
  if (!isRecord(value) || !isRecord(value.function)) return false;
  const { name, description, parameters } = value.function;
  return typeof name === "string" && isOptionalText(description) &&
    (parameters === undefined || isRecord(parameters));
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "string";
}

interface ChatTurnWriterOptions extends TurnWriterOptions {
  /** Whether usage that the client didn't request is removed. */
  readonly hidesUsage: boolean;
}

/** Makes call arguments parseable when sent back. */
function withLegalCalls(message: JsonRecord): JsonRecord {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  const legal = calls.map((call) => {
    const made = asRecord(asRecord(call)?.function);
    if (typeof made?.arguments !== "string") return call;
    return { ...call, function: { ...made, arguments: legalArguments(made.arguments) } };
  });
  return { ...message, tool_calls: legal };
}

/** Forwards the chat completions of one turn; unaffected chunks keep their bytes. */
class ChatTurnWriter implements TurnWriter {
  readonly #options: ChatTurnWriterOptions;
  readonly #replies: {
    readonly message: JsonRecord;
    readonly reply: WireReply;
    /** Whether it calls deferred tools by the pair. */
    readonly isMeant: boolean;
  }[] = [];
  #splitter = new SseSplitter();
  /** Current reply, as fields or unparsed events. */
  #pieces: (JsonRecord | Uint8Array<ArrayBuffer>)[] = [];
  #calls = new CallAssembler();
  #recalls = new Set<number>();
  /** Calls of the pair's `call`, until they are complete. */
  #meant = new Set<number>();
  #callsClient = false;
  #usage: unknown;
  #tier: unknown;
  #finish: unknown;
  /** Fields shared by all chunks. */
  #envelope: JsonRecord = {};
  #held: Uint8Array<ArrayBuffer>[] = [];
  #holds = false;
  #ended = false;
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  constructor(options: ChatTurnWriterOptions) {
    this.#options = options;
  }

  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#passesWhole(whole)) {
      if (this.#keeps) this.#pieces.push(whole);
      return whole.length > 0 ? [whole] : [];
    }
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Returns whether bytes without calls, an end or usage can be forwarded unparsed. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (
      this.#replies.length > 0 || this.#holds || this.#calls.nameOf(0) !== undefined ||
      this.#envelope.id === undefined
    ) {
      return false;
    }
    const text = decoder.decode(bytes);
    return !WATCHED.some((word) => text.includes(word)) &&
      !(this.#options.hidesUsage && text.includes('"usage"'));
  }

  get #keeps(): boolean {
    const { recall, pair, keepsText } = this.#options;
    return recall !== undefined || pair !== undefined || keepsText === true;
  }

  #readMessage(): JsonRecord {
    const deltas = this.#pieces.flatMap((pieces) => {
      if (!(pieces instanceof Uint8Array)) return [pieces];
      return splitEvents(pieces).map(({ data }) => {
        const { choices } = readChunk(data) ?? {};
        const { delta } = asRecord(Array.isArray(choices) ? choices[0] : undefined) ?? {};
        return asRecord(delta) ?? {};
      });
    });
    return deltas.reduce(mergeDelta, {});
  }

  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#held.push(...this.#pass(rest));
    const calls = this.#calls.finish(new Set()).map(({ function: called, ...call }) =>
      "custom" in call ? { ...call, type: "custom" } : { ...call, function: called }
    );
    const isKnown = this.#recalls.size > 0 || this.#replies.length > 0 || this.#options.keepsText;
    const message = isKnown ? this.#readMessage() : {};
    return this.#take({ ...message, ...(calls.length > 0 && { tool_calls: calls }) });
  }

  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    const body: unknown = JSON.parse(decoder.decode(bytes));
    this.#whole = bytes;
    this.#usage = isRecord(body) ? body.usage : undefined;
    this.#tier = isRecord(body) ? body.service_tier : undefined;
    const choice = isRecord(body) && Array.isArray(body.choices) ? body.choices[0] : undefined;
    const message = isRecord(choice) && isRecord(choice.message) ? choice.message : {};
    this.#finish = isRecord(choice) ? choice.finish_reason : undefined;
    return this.#take(message);
  }

  finish(): Uint8Array<ArrayBuffer> {
    if (this.#whole.length === 0) return joinBytes(this.#held);
    const last = this.#replies.at(-1);
    const isSame = this.#replies.length === 1 && !last?.isMeant && last?.reply.recalls.length === 0;
    if (!last || isSame) return this.#whole;
    const body = JSON.parse(decoder.decode(this.#whole));
    const calls = this.#clientCalls(last.message);
    const { tool_calls: _, ...message } = last.message;
    const [choice] = body.choices;
    body.choices[0] = {
      ...choice,
      message: { ...message, content: this.#text(), ...(calls.length > 0 && { tool_calls: calls }) },
      ...(calls.length === 0 && choice.finish_reason === "tool_calls" && { finish_reason: "stop" }),
    };
    return jsonBytes(body);
  }

  fail(message: string): Uint8Array<ArrayBuffer> {
    const body = new ApiError(502, message, { code: "upstream_failed" }).body();
    return encoder.encode(eventText({ data: JSON.stringify(body) }));
  }

  /** Returns the items that replace the client's one message. */
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
    const anchor = anchorOf(known as Parameters<typeof anchorOf>[0]);
    return [{ replaces: [anchor], before: [], thoughts: [], items }];
  }

  #text(): string | null {
    const texts = this.#replies.map(({ message }) => message.content).filter((text) =>
      typeof text === "string"
    );
    return texts.length > 0 ? texts.join("") : null;
  }

  #isRecall(call: unknown): boolean {
    const { recall, pair } = this.#options;
    const name = isRecord(call) && isRecord(call.function) ? call.function.name : undefined;
    return name !== undefined && [recall, pair?.find, pair?.call].includes(name as string);
  }

  /** Returns a call of the pair as that of the tool that it names; other calls unchanged. */
  #meantCall(call: JsonRecord): JsonRecord {
    const { pair } = this.#options;
    const called = asRecord(call.function);
    if (!pair || called?.name !== pair.call) return call;
    const meant = pair.meant(String(called.arguments ?? ""));
    return meant ? { ...call, function: { ...called, ...meant } } : call;
  }

  #clientCalls({ tool_calls: calls }: JsonRecord): unknown[] {
    return Array.isArray(calls) ? calls.filter((call) => !this.#isRecall(call)) : [];
  }

  #take(written: JsonRecord): WireReply {
    const made = Array.isArray(written.tool_calls) ? written.tool_calls.filter(isRecord) : [];
    const calls = made.map((call) => this.#meantCall(call));
    const isMeant = calls.some((call, at) => call !== made[at]);
    const message = isMeant ? { ...written, tool_calls: calls } : written;
    const recalls = calls.filter((call) => this.#isRecall(call)).map((
      call,
    ): WireReply["recalls"][number] => ({
      id: String(call.id ?? ""),
      name: String(asRecord(call.function)?.name),
      arguments: String(asRecord(call.function)?.arguments ?? ""),
    }));
    const usage = readUsage(this.#usage, { service_tier: this.#tier });
    const reply: WireReply = {
      ...(usage && { usage }),
      recalls,
      ...(typeof this.#finish === "string" && { finish: this.#finish }),
      callsClient: calls.length > recalls.length,
      items: recalls.length > 0 || this.#replies.length > 0 || this.#options.keepsText
        ? [JSON.stringify({ role: "assistant", ...withLegalCalls(message) })]
        : [],
      ...(this.#options.keepsText && typeof message.content === "string" && { text: message.content }),
    };
    this.#replies.push({ message, reply, isMeant });
    this.#ended = true;
    return reply;
  }

  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#held = [];
    this.#holds = false;
    this.#pieces = [];
    this.#calls = new CallAssembler();
    this.#recalls = new Set();
    this.#meant = new Set();
    this.#callsClient = false;
    this.#usage = undefined;
    this.#tier = undefined;
    this.#finish = undefined;
    this.#splitter = new SseSplitter();
  }

  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const { bytes, data } = event;
    // Clients disconnect at this event; it is held until the usage is recorded.
    if (data === "[DONE]") this.#holds = true;
    const chunk = readChunk(data);
    const seen = chunk ? this.#passChunk(chunk, bytes) : [bytes];
    if (!this.#holds) return seen;
    this.#held.push(...seen);
    return [];
  }

  #passChunk(chunk: JsonRecord, bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    const { hidesUsage } = this.#options;
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    const choice: unknown = choices[0];
    const later = this.#replies.length > 0;
    const first = this.#envelope;
    if (!later && chunk.id !== undefined && first.id === undefined) this.#envelope = { id: chunk.id };
    this.#tier = chunk.service_tier ?? this.#tier;
    let changed: JsonRecord | undefined = later ? { ...chunk, ...this.#envelope } : undefined;
    let before: JsonRecord | undefined;
    if (isRecord(chunk.usage)) {
      this.#usage = chunk.usage;
      if (hidesUsage && choices.length === 0) return [];
    } else if (hidesUsage && chunk.usage === null) {
      // Other chunks of requested usage contain null.
      const { usage: _, ...rest } = changed ?? chunk;
      changed = rest;
    }
    if (isRecord(choice)) {
      const delta = isRecord(choice.delta) ? choice.delta : {};
      const ends = typeof choice.finish_reason === "string";
      const visible = this.#takeDelta(delta, { later, ends });
      if (ends) this.#finish = choice.finish_reason;
      const recalled = this.#recalls.size > 0;
      if (visible === undefined && !ends) return [];
      if (visible !== delta || (ends && recalled)) {
        const { tool_calls: _, ...rest } = delta;
        const finish = ends && recalled && !this.#callsClient ? "stop" : choice.finish_reason;
        const whole = changed ?? chunk;
        const withDelta = (delta: JsonRecord, finish_reason: unknown) => ({
          ...whole,
          choices: [{ ...choice, delta, finish_reason }, ...choices.slice(1)],
        });
        // Calls precede the end, as in the provider's chunks.
        if (ends && visible?.tool_calls) {
          const { usage: _, ...first }: JsonRecord = withDelta(visible, null);
          before = first;
        }
        changed = withDelta(before ? {} : visible ?? rest, finish);
      }
      if (ends && recalled) this.#holds = true;
    }
    const seen = [before, changed].flatMap((one) =>
      one ? [encoder.encode(eventText({ data: JSON.stringify(one) }))] : []
    );
    return changed ? seen : [bytes];
  }

  #takeDelta(
    delta: JsonRecord,
    { later, ends }: { readonly later: boolean; readonly ends: boolean },
  ): JsonRecord | undefined {
    const { tool_calls: calls, role, ...fields } = delta;
    if (this.#keeps) this.#pieces.push(fields);
    const withoutRole = later ? fields : { ...(role !== undefined && { role }), ...fields };
    if (!Array.isArray(calls) && !(ends && this.#meant.size > 0)) {
      return later && role !== undefined ? (isEmpty(fields) ? undefined : fields) : delta;
    }
    const pieces = Array.isArray(calls) ? calls.filter(isRecord) : [];
    const seen: unknown[] = [];
    let moved = false;
    for (const [at, { index }] of this.#calls.read(pieces).entries()) {
      const piece = pieces[at];
      const name = this.#calls.nameOf(index);
      if (!this.#meant.has(index)) seen.push(...this.#endMeant());
      if (name !== undefined && name === this.#options.pair?.call) {
        this.#meant.add(index);
        moved = true;
        continue;
      }
      if (this.#isRecall({ function: { name } })) {
        this.#recalls.add(index);
        moved = true;
        continue;
      }
      this.#callsClient = true;
      const shift = [...this.#recalls].filter((recall) => recall < index).length;
      const position = typeof piece?.index === "number" ? piece.index : index;
      if (shift > 0) moved = true;
      seen.push(shift > 0 ? { ...piece, index: position - shift } : piece);
    }
    if (ends) seen.push(...this.#endMeant());
    if (!moved && seen.length === pieces.length) {
      return later && role !== undefined ? { ...fields, tool_calls: calls } : delta;
    }
    if (seen.length > 0) return { ...withoutRole, tool_calls: seen };
    return isEmpty(withoutRole) ? undefined : withoutRole;
  }

  /** Returns the complete calls of the pair as the client receives them. */
  #endMeant(): unknown[] {
    const seen: unknown[] = [];
    for (const index of this.#meant) {
      const call = this.#calls.callAt(index);
      const meant = this.#meantCall(call);
      if (meant === call) this.#recalls.add(index);
      else {
        this.#callsClient = true;
        const shift = [...this.#recalls].filter((recall) => recall < index).length;
        seen.push({ ...meant, index: index - shift });
      }
    }
    this.#meant = new Set();
    return seen;
  }
}

/** Markers of calls, an end or usage. */
const WATCHED: readonly string[] = [
  '"tool_calls"',
  '"finish_reason":"',
  '"finish_reason": "',
  '"usage":{',
  '"usage": {',
  "[DONE]",
];

const decoder = new TextDecoder();

function readChunk(data: string | undefined): JsonRecord | undefined {
  if (data === undefined || data === "[DONE]") return undefined;
  try {
    return asRecord(JSON.parse(data));
  } catch {
    // Unknown data is forwarded unchanged.
    return undefined;
  }
}

function isEmpty(fields: JsonRecord): boolean {
  return Object.values(fields).every((value) => value === null || value === undefined || value === "");
}
