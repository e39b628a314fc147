import {
  type Content,
  type ContentPart,
  contentText,
  type Message,
  partsOfBlock,
  type ToolDefinition,
} from "@tare/messages";
import { hashText, holdsMedia, isMedia } from "@tare/messages/internal";
import { ApiError } from "../api_error.ts";
import { isRecord, joinBytes, jsonBytes, type JsonRecord, parseRecord } from "../json.ts";
import {
  BEARER,
  type HiddenItems,
  type ItemPart,
  type Protocol,
  type ReadTool,
  type TurnWriter,
  type TurnWriterOptions,
  UnknownShape,
  type WireReply,
} from "../protocol.ts";
import {
  argumentsMeaning,
  inOrder,
  meaningfulFields,
  meaningfulParts,
  plainContent,
  statedFailure,
} from "../meaning.ts";
import { readUsage } from "../chat/chat_completions.ts";
import { responsesTool } from "./write_responses_body.ts";
import { legalArguments } from "../legality.ts";
import { type RawEvent, splitEvents, SseSplitter, typedEvent } from "../sse.ts";
import { anchorOf, readCommonHints, readField, wholeTool } from "../request.ts";

/**
 * OpenAI's Responses. Each input item is a planner message; outputs of function calls are editable, and other
 * items than messages and calls unchanged.
 */
export const RESPONSES_PROTOCOL: Protocol = {
  name: "responses",
  path: "/responses",
  countPath: "/responses/input_tokens",
  listField: "input",
  head: {
    fields: ["instructions"],
    read([instructions]) {
      if (instructions === null) return [];
      const content = typeof instructions === "string" ? instructions : JSON.stringify(instructions);
      return [{
        message: { role: "system", content },
        meaning: { role: "system", parts: meaningfulParts(content) },
      }];
    },
  },
  replyFields: ["max_output_tokens"],
  // https://platform.openai.com/docs/api-reference/responses/create: fewer than 16 are refused.
  minReplyTokens: 16,
  auth: BEARER,
  followsField: "previous_response_id",
  readHints(body, headers) {
    const follows = readField(body, "previous_response_id");
    const conversation = readField(body, "conversation") ?? undefined;
    return {
      ...readCommonHints(body, headers),
      ...(typeof follows === "string" && { follows }),
      ...(conversation !== undefined && { name: JSON.stringify(conversation), isAppended: true }),
      isStateful: typeof follows === "string" || conversation !== undefined,
      isDetached: readField(body, "background") === true,
    };
  },
  readItem(value) {
    const { type, id } = isRecord(value) ? value : {};
    const refersTo = type === "item_reference" && typeof id === "string" ? { refersTo: id } : {};
    const purpose: Partial<ItemPart> = type === "compaction_trigger" ? { purpose: "compaction" } : {};
    const thought = isRecord(value) && isThought(value) && { isThought: true };
    const meaning = itemMeaning(value);
    return [{ message: readItem(value), meaning, ...textOf(type), ...refersTo, ...thought, ...purpose }];
  },
  idPaths: (value) => isRecord(value) && PAIRED.includes(value.type) ? [["call_id"]] : [],
  readTool,
  writeMessage: ({ role, content }) => JSON.stringify({ role, content }),
  writeAnswers: (answers) =>
    answers.map(({ id, text }) =>
      JSON.stringify({ type: "function_call_output", call_id: id, output: text })
    ),
  writeTool,
  // The provider has a search, and clients that defer use it.
  forbidsToolPair: (tool) => isRecord(tool) && (tool.type === "tool_search" || "defer_loading" in tool),
  addedFields: () => new Map(),
  writer: (_, options) => new ResponsesTurnWriter({ ...options, readItem: RESPONSES_PROTOCOL.readItem }),
  refuse: (status, message, code) => new ApiError(status, message, { code }).toResponse(),
};

/** Meaningless fields, sent inconsistently. */
const OMITTED: readonly string[] = ["status"];

function itemMeaning(value: unknown): unknown {
  if (typeof value === "string") return itemMeaning({ role: "user", content: value });
  if (!isRecord(value)) return value;
  const { type = "message", role, content, output, name, arguments: args, status } = value;
  if (type === "message") {
    return {
      type,
      role,
      parts: meaningfulParts(asTexts(content)),
      rest: restOf(value, ["id", "role", "content"]),
    };
  }
  if (type === "function_call") {
    const rest = restOf(value, ["id", "call_id", "name", "arguments"]);
    return { type, name, arguments: typeof args === "string" ? argumentsMeaning(args) : args, rest };
  }
  if (type === "custom_tool_call") return { type, rest: restOf(value, ["id", "call_id"]) };
  if (OUTPUTS.includes(type)) {
    // A result's status may report an error.
    const failed = FAILED.includes(status) && { status };
    return {
      type,
      parts: meaningfulParts(asTexts(output)),
      ...failed,
      rest: restOf(value, ["id", "call_id", "output"]),
    };
  }
  return plain(value);
}

function asTexts(content: unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part) =>
    isRecord(part) && TEXTS.includes(part.type) ? { ...part, type: "text" } : part
  );
}

const TEXTS: readonly unknown[] = ["input_text", "output_text"];

function restOf(item: JsonRecord, without: readonly string[]): unknown {
  return inOrder(meaningfulFields(item, ["type", ...OMITTED, ...without]));
}

function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  const fields = Object.entries(meaningfulFields(value, OMITTED)).toSorted(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(fields.map(([name, field]) => [name, plain(field)]));
}

const CALLS: readonly unknown[] = ["function_call", "custom_tool_call"];
const OUTPUTS: readonly unknown[] = ["function_call_output", "custom_tool_call_output"];
/** Items whose ids only pair them. */
const PAIRED: readonly unknown[] = [...CALLS, ...OUTPUTS];

function textOf(type: unknown): Pick<ItemPart, "text"> {
  return OUTPUTS.includes(type) ? { text: ["output"] } : {};
}

function readItem(item: unknown): Message {
  if (typeof item === "string") return { role: "user", content: item };
  if (!isRecord(item)) throw unknown("an item of the input");
  const { type = "message", id } = item;
  switch (type) {
    case "message":
      return readMessage(item);
    case "function_call":
      return {
        role: "assistant",
        tool_calls: [{
          id: text(item.call_id),
          type: "function",
          function: { name: text(item.name), arguments: text(item.arguments) },
        }],
      };
    case "custom_tool_call":
      return {
        role: "assistant",
        tool_calls: [{
          id: text(item.call_id),
          type: "custom",
          custom: { name: text(item.name), input: text(item.input) },
        }],
      };
    case "function_call_output":
    case "custom_tool_call_output":
      return readResult(item);
    case "tool_search_output":
      // The model sees all found tools.
      return withId({ role: "assistant", content: JSON.stringify(item) }, id);
    case "item_reference":
    case "reasoning": {
      // Some clients omit the id; sealed content stays unchanged.
      const { encrypted_content: sealed } = item;
      const known = typeof sealed === "string" ? `sealed ${hashText(sealed)}` : id;
      return withId({ role: "assistant", content: null, reasoning_content: summary(item) }, known);
    }
    default:
      return withId({ role: "assistant", content: plainContent(partsOfBlock(item)) }, id);
  }
}

function readResult({ call_id: id, output, status }: JsonRecord): Message {
  const content = readContent(output);
  // A completed result may still be an error.
  const flag = FAILED.includes(status) ? true : undefined;
  return {
    role: "tool",
    tool_call_id: text(id),
    content,
    ...statedFailure(content, flag),
    // Recalls return text only.
    ...(holdsMedia(content) && { keep: true }),
  };
}

/** Statuses of failed calls. */
const FAILED: readonly unknown[] = ["incomplete", "failed"];

/** Keeps the id, which identifies any spelling. */
function withId(message: Message, id: unknown): Message {
  return typeof id === "string" ? Object.assign(message, { id }) : message;
}

function readMessage({ role, content }: JsonRecord): Message {
  const read = readContent(content);
  if (role === "system" || role === "developer" || role === "user" || role === "assistant") {
    return { role, content: read };
  }
  throw unknown("the role of a message");
}

function readContent(content: unknown): Content {
  const plain = plainContent(asTexts(content));
  if (typeof plain === "string") return plain;
  if (!Array.isArray(plain)) throw unknown("the content of an item");
  return plain.map(readPart);
}

function readPart(part: unknown): ContentPart {
  if (!isRecord(part)) throw unknown("a content part");
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: text(part.text) };
    case "refusal":
      return { type: "refusal", refusal: text(part.refusal) };
    case "input_image":
      return {
        type: "image_url",
        image_url: { url: "", ...(typeof part.detail === "string" && { detail: part.detail }) },
      };
    default: {
      // Unknown parts must be media.
      const media = partsOfBlock(part).find(isMedia);
      if (media) return media;
      throw unknown("a content part");
    }
  }
}

function readTool(tool: unknown): ReadTool {
  if (!isRecord(tool)) throw unknown("a tool");
  const { type, name, description, parameters, strict, defer_loading: isDeferred } = tool;
  const inFront = isDeferred !== true;
  if (type !== "function") {
    // The model doesn't see credentials.
    const { authorization: _, headers: __, tools, ...fields } = tool;
    const within = Array.isArray(tools) && tools.filter((one) => one?.defer_loading !== true);
    return { ...wholeTool({ ...fields, ...(within && { tools: within }) }), inFront };
  }
  if (typeof name !== "string") throw unknown("a tool");
  const definition: ToolDefinition = {
    type: "function",
    function: {
      name,
      ...(typeof description === "string" && { description }),
      ...(isRecord(parameters) && { parameters }),
      ...(typeof strict === "boolean" && { strict }),
    },
  };
  return { definition, inFront };
}

function writeTool(tool: ToolDefinition, original?: unknown): string {
  const { function: fields } = tool;
  if (!isRecord(original)) return JSON.stringify(responsesTool(tool));
  const { description: _, ...rest } = original;
  return JSON.stringify({ ...rest, ...fields });
}

export function summary({ summary }: JsonRecord): string {
  if (!Array.isArray(summary)) return "";
  return summary.map((part) => isRecord(part) && typeof part.text === "string" ? part.text : "").join("\n");
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  throw unknown("a text");
}

function unknown(what: string): UnknownShape {
  return new UnknownShape(`${what} is invalid in the Responses format`);
}

interface ResponsesTurnWriterOptions extends TurnWriterOptions {
  readonly readItem: (item: unknown) => readonly ItemPart[];
}

const TERMINAL = ["response.completed", "response.incomplete", "response.failed"];
const OPENING = ["response.created", "response.queued", "response.in_progress"];

/** Makes call arguments parseable when sent back. */
function writeReplyItem(item: JsonRecord): string {
  const { type, arguments: text } = item;
  return JSON.stringify(
    type === "function_call" && typeof text === "string"
      ? { ...item, arguments: legalArguments(text) }
      : item,
  );
}

/** Forwards the responses of one turn as one; unaffected events keep their bytes. */
class ResponsesTurnWriter implements TurnWriter {
  readonly #options: ResponsesTurnWriterOptions;
  readonly #replies: { readonly items: readonly JsonRecord[]; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** Items of the current reply by index. */
  #items = new Map<number, JsonRecord>();
  #recalls = new Set<number>();
  /** Calls of the pair's `call`, until they are complete. */
  #meant = new Set<number>();
  #hasMeant = false;
  #last: JsonRecord = {};
  /** The client's next event number. */
  #sequence = 0;
  #held: RawEvent[] = [];
  #ended = false;
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  constructor(options: ResponsesTurnWriterOptions) {
    this.#options = options;
  }

  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#passesWhole(whole)) return whole.length > 0 ? [whole] : [];
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Returns whether bytes can be forwarded unparsed, and counts their events. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#replies.length > 0 || this.#recalls.size > 0 || this.#hasMeant) return false;
    const text = decoder.decode(bytes);
    if (WATCHED.some((word) => text.includes(word))) return false;
    const last = text.lastIndexOf(SEQUENCE);
    const number = last < 0 ? NaN : parseInt(text.slice(last + SEQUENCE.length));
    if (Number.isSafeInteger(number)) this.#sequence = number + 1;
    return true;
  }

  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#pass(rest).forEach((bytes) => this.#held.push({ bytes }));
    const { output } = this.#last;
    const items = [...this.#items].sort(([a], [b]) => a - b).map(([, item]) => item);
    return this.#take(Array.isArray(output) && output.length >= items.length ? output : items);
  }

  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    const body: unknown = JSON.parse(decoder.decode(bytes));
    this.#whole = bytes;
    this.#last = isRecord(body) ? body : {};
    return this.#take(Array.isArray(this.#last.output) ? this.#last.output : []);
  }

  /** Id of the turn for the client; a stream began with the first reply's. */
  get id(): string | undefined {
    const streams = this.#whole.length === 0;
    return this.#replies.at(streams ? 0 : -1)?.reply.id;
  }

  finish(): Uint8Array<ArrayBuffer> {
    const changed = this.#hasMeant || this.#replies.some(({ reply }) => reply.recalls.length > 0);
    const { id } = this;
    const response = changed
      ? { ...this.#last, ...(id !== undefined && { id }), output: this.#visible() }
      : undefined;
    if (this.#whole.length > 0) return response ? jsonBytes(response) : this.#whole;
    return joinBytes(this.#held.map((event) => {
      const data = parseRecord(event.data);
      if (!response || !data || !TERMINAL.includes(String(data.type))) return event.bytes;
      return typedEvent({ ...data, response, sequence_number: this.#sequence++ });
    }));
  }

  fail(message: string): Uint8Array<ArrayBuffer> {
    const type = "error";
    return typedEvent({
      type,
      code: "upstream_failed",
      message,
      param: null,
      sequence_number: this.#sequence++,
    });
  }

  /**
   * Returns all items of earlier replies with answers to recalls, then the last reply's recalls with their
   * reasoning, before its calls.
   */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    if (!this.#replies.some(({ reply }) => reply.recalls.length > 0)) return [];
    const last = this.#replies.length - 1;
    const before = this.#replies.slice(0, -1);
    const thoughts = before.flatMap(({ items }) => items.filter(isThought));
    const replaced = before.flatMap(({ items }) =>
      this.#withoutRecalls(items).filter((item) => !isThought(item))
    );
    const known = this.#withoutRecalls(this.#replies[last]?.items ?? []);
    const recalls = this.#replies[last]?.items.filter((item) => this.#isRecall(item)) ?? [];
    const call = known.findIndex(isCall);
    const inFront = known.slice(0, Math.max(0, call));
    const lead = inFront.slice(inFront.findLastIndex((item) => !isThought(item)) + 1);
    return [
      {
        items: before.flatMap(({ reply }, at) => [...reply.items, ...answers[at] ?? []]),
        replaces: this.#anchorsOf(replaced),
        thoughts: this.#anchorsOf(thoughts),
        before: this.#anchorsOf(known.filter((item) => !isThought(item))),
      },
      {
        items: [...lead, ...recalls].map(writeReplyItem).concat(answers[last] ?? []),
        replaces: [],
        thoughts: this.#anchorsOf(lead),
        before: call < 0 || recalls.length === 0 ? [] : this.#anchorsOf(known.slice(call)),
      },
    ].filter(({ items, before, replaces }) => items.length > 0 && before.length + replaces.length > 0);
  }

  #visible(): JsonRecord[] {
    return this.#replies.flatMap(({ items }) => this.#withoutRecalls(items));
  }

  #withoutRecalls(items: readonly JsonRecord[]): JsonRecord[] {
    return items.filter((item) => !this.#isRecall(item));
  }

  #anchorsOf(items: readonly JsonRecord[]): string[] {
    return items.flatMap((item) => this.#partsOf(item).map(({ message }) => anchorOf(message)));
  }

  #partsOf(item: JsonRecord): readonly ItemPart[] {
    try {
      return this.#options.readItem(item);
    } catch {
      // Unknown items are forwarded unchanged.
      return [];
    }
  }

  #textOf(item: JsonRecord): string[] {
    return this.#partsOf(item).map(({ message }) => contentText(message.content));
  }

  #isRecall(item: unknown): boolean {
    const { recall, pair } = this.#options;
    return isCall(item) && item.name !== undefined &&
      [recall, pair?.find, pair?.call].includes(item.name as string);
  }

  #isPairCall(item: unknown): item is JsonRecord {
    const { pair } = this.#options;
    return pair !== undefined && isCall(item) && item.name === pair.call;
  }

  /** Returns a call of the pair as that of the tool that it names; other items unchanged. */
  #meantItem(item: JsonRecord): JsonRecord {
    if (!this.#isPairCall(item)) return item;
    const meant = this.#options.pair!.meant(String(item.arguments ?? ""));
    this.#hasMeant = true;
    return meant ? { ...item, ...meant } : item;
  }

  #take(output: readonly unknown[]): WireReply {
    const items = output.filter(isRecord).map((item) => this.#meantItem(item));
    for (const item of items) {
      const parts = this.#partsOf(item);
      if (typeof item.id === "string" && parts.length > 0) this.#options.seen?.(item.id, parts);
    }
    const recalls = items.filter((item) => this.#isRecall(item)).map((item) => ({
      id: String(item.call_id ?? ""),
      name: String(item.name),
      arguments: String(item.arguments ?? ""),
    }));
    const { id, status, usage: counted } = this.#last;
    const usage = readUsage(counted, { ...this.#last, output: items });
    const reply: WireReply = {
      ...(usage && { usage }),
      ...(typeof id === "string" && { id }),
      ...(typeof status === "string" && { finish: status }),
      recalls,
      callsClient: items.some((item) => CLIENT_CALLS.includes(item.type) && !this.#isRecall(item)),
      items: items.map(writeReplyItem),
      ...(this.#options.keepsText && { text: items.flatMap((item) => this.#textOf(item)).join("\n") }),
    };
    this.#replies.push({ items, reply });
    this.#ended = true;
    return reply;
  }

  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const data = parseRecord(event.data);
    if (!data) return [event.bytes];
    const type = String(data.type);
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
    let visible = data;
    if (typeof index === "number") {
      if (isRecord(item)) this.#items.set(index, item);
      if (type === "response.output_item.added") {
        if (this.#isPairCall(item)) {
          this.#hasMeant = true;
          this.#meant.add(index);
        } else if (this.#isRecall(item)) this.#recalls.add(index);
      }
      if (this.#meant.has(index)) return type === "response.output_item.done" ? this.#endMeant(index) : [];
      if (this.#recalls.has(index)) return [];
      const before = this.#visible().length - [...this.#recalls].filter((recall) => recall < index).length;
      if (before !== 0) visible = { ...visible, output_index: index + before };
    }
    const { sequence_number: sequence } = data;
    if (typeof sequence === "number") {
      if (sequence !== this.#sequence) visible = { ...visible, sequence_number: this.#sequence };
      this.#sequence++;
    }
    return [visible === data ? bytes : typedEvent(visible)];
  }

  /** Returns the events of a complete call of the pair as the client receives it. */
  #endMeant(index: number): Uint8Array<ArrayBuffer>[] {
    this.#meant.delete(index);
    const written = this.#items.get(index)!;
    const item = this.#meantItem(written);
    this.#items.set(index, item);
    if (item === written) {
      this.#recalls.add(index);
      return [];
    }
    const { id: item_id, name, arguments: text } = item;
    const place = { item_id, output_index: index };
    const begun = { ...item, status: "in_progress", arguments: "" };
    return [
      { type: "response.output_item.added", output_index: index, item: begun },
      { type: "response.function_call_arguments.delta", ...place, delta: text },
      { type: "response.function_call_arguments.done", ...place, name, arguments: text },
      { type: "response.output_item.done", output_index: index, item },
    ].flatMap((data) => this.#passItem({ ...data, sequence_number: NaN }, { bytes: new Uint8Array() }));
  }

  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#last = {};
    this.#items = new Map();
    this.#recalls = new Set();
    this.#meant = new Set();
    this.#held = [];
    this.#splitter = new SseSplitter();
  }
}

/** Markers of events other than text. */
const WATCHED: readonly string[] = [
  '"response.output_item.',
  ...[...TERMINAL, ...OPENING].map((type) => `"${type}"`),
];
const SEQUENCE = '"sequence_number":';

const decoder = new TextDecoder();

export function isThought({ type }: JsonRecord): boolean {
  return type === "reasoning";
}

function isCall(item: unknown): item is JsonRecord {
  return isRecord(item) && item.type === "function_call";
}

/** Types of calls that the client answers. */
const CLIENT_CALLS: readonly unknown[] = [
  "function_call",
  "custom_tool_call",
  "local_shell_call",
  "shell_call",
  "apply_patch_call",
  "computer_call",
];
