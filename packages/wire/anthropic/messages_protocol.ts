import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  type Message,
  partsOfBlock,
  type ToolCall,
  type ToolDefinition,
} from "@tare/messages";
import {
  asRecord,
  editJson,
  isRecord,
  joinBytes,
  jsonBytes,
  type JsonRecord,
  parseRecord,
  withoutNulls,
} from "../json.ts";
import {
  type HiddenItems,
  type ItemPart,
  type Protocol,
  type TurnWriter,
  type TurnWriterOptions,
  UnknownShape,
  type WireBody,
  type WireReply,
} from "../protocol.ts";
import {
  arrangeItems,
  findMarkedEnds,
  hasContent,
  isThinking,
  readCacheMarks,
  withoutMarks,
} from "./cache_marks.ts";
import { saidParts, statedFailure, toldFields } from "../meaning.ts";
import { errorBody } from "./write_message.ts";
import { toolOf } from "./write_messages_body.ts";
import { type RawEvent, splitEvents, SseSplitter, typedEvent } from "../sse.ts";
import { readMessagesUsage, readStreamedBlocks, writeMessagesUsage } from "./message_assembler.ts";
import { isSubscription, leavesNothing, pingBody, readAnswerBlocks } from "./ping.ts";
import { isSearch, TOOL_SEARCH } from "./tool_search.ts";
import { anchorOf, readCommonHints, readField, wholeTool } from "../request.ts";

/** The key header of Messages clients; signed-in clients send a bearer token. */
const API_KEY: Protocol["auth"] = {
  headers: ["x-api-key", "authorization"],
  name: "x-api-key",
  prefix: "",
};

/** Claude Code's session id in the user id, whose device id may change when two first starts coincide. */
const SESSION_ID = /"session_id":"([^"]+)"/;

/** Beta header of a context window of a million tokens, possibly in a list. */
const MILLION = /(?:^|[\s,])context-1m-/;

/**
 * Anthropic's Messages. For the planner, a reply is one message and each block of a user item another, so
 * that results are edited individually. Cache breakpoints aren't content, and are never lost.
 */
export const MESSAGES_PROTOCOL: Protocol = {
  name: "messages",
  path: "/messages",
  countPath: "/messages/count_tokens",
  listField: "messages",
  head: { fields: ["system"], read: ([system]) => readSystem(system) },
  replyFields: ["max_tokens"],
  minReplyTokens: 1,
  compaction: { keptTokens: 10_000, keepsFront: false },
  auth: API_KEY,
  speaks: (headers) => headers.has("anthropic-version"),
  readHints(body, headers) {
    const metadata = readField(body, "metadata");
    const user = isRecord(metadata) ? metadata.user_id : undefined;
    const betas = [
      headers.get("anthropic-beta"),
      readField(body, "anthropic_beta"),
      readField(body, "betas"),
    ];
    return {
      ...readCommonHints(body, headers),
      ...(betas.flat().some((names) => typeof names === "string" && MILLION.test(names)) && {
        asksForMillion: true,
      }),
      ...(typeof user === "string" && { key: SESSION_ID.exec(user)?.[1] ?? user }),
      isStateful: false,
      // A thread's history is stored upstream; its tools must stay unchanged.
      isDetached: isRecord(readField(body, "thread")) ||
        isChangedUpstream(readField(body, "context_management")),
    };
  },
  cacheTtlMs: (request) => readCacheMarks(request).at(-1)?.ttlMs ?? 0,
  markField: "cache_control",
  toolSearch: TOOL_SEARCH,
  withoutNonce,
  readItem: readMessage,
  idPaths(value) {
    const content = asRecord(value)?.content;
    const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
    return blocks.flatMap((block, at) => {
      const name = isRecord(block) && ID_FIELDS[String(block.type)];
      return name ? [["content", at, name]] : [];
    });
  },
  readTool(tool) {
    if (!isRecord(tool)) throw unknownTool();
    const { cache_control: _, defer_loading: isDeferred, ...shown } = tool;
    const { type, name, description, input_schema: parameters } = shown;
    const inFront = isDeferred !== true;
    if ((type ?? "custom") !== "custom") return { ...wholeTool(shown), inFront };
    if (typeof name !== "string" || !isRecord(parameters)) throw unknownTool();
    const described = { name, ...(typeof description === "string" && { description }), parameters };
    return { definition: { type: "function", function: described }, inFront };
  },
  writeMessage: ({ role, content }) =>
    JSON.stringify({ role: role === "assistant" ? role : "user", content: content ?? "" }),
  writeAnswers: (answers) => {
    const content = answers.map(({ id, text }) => ({ type: "tool_result", tool_use_id: id, content: text }));
    return content.length === 0 ? [] : [JSON.stringify({ role: "user", content })];
  },
  writeTool,
  addedFields: () => new Map(),
  arrange: arrangeItems,
  markedEnds: findMarkedEnds,
  pings: {
    readAnswerBlocks,
    write: pingBody,
    readUsage: (reply) => readMessagesUsage(asRecord(JSON.parse(decoder.decode(reply)))?.usage),
    leavesNothing,
    isSubscription,
    mustReply: (request) => asRecord(readField(request, "thinking"))?.type === "enabled",
  },
  writer: (_, options) => new MessagesTurnWriter(options),
  refuse: (status, message) => Response.json(errorBody(status, message), { status }),
};

/** Fields with the id of a call, by block type. */
const ID_FIELDS: Readonly<Record<string, string>> = { tool_use: "id", tool_result: "tool_use_id" };

/** Claude Code's billing line, with a number that changes. */
const BILLING = /^(x-anthropic-billing-header:[^]*?\bcch=)([0-9a-z]+)/i;

/** Returns the body with zeros in place of the number in its first line. */
function withoutNonce(body: WireBody): Uint8Array<ArrayBuffer> | undefined {
  const system = readField(body, "system");
  const blocks: readonly unknown[] = Array.isArray(system) ? system : [system];
  const [first] = blocks;
  const text = isRecord(first) ? first.text : first;
  if (typeof text !== "string" || !BILLING.test(text)) return undefined;
  const path = ["system", ...(Array.isArray(system) ? [0] : []), ...(isRecord(first) ? ["text"] : [])];
  const still = text.replace(BILLING, (_, before, number) => before + "0".repeat(number.length));
  return editJson(body.bytes, [{ path, value: jsonBytes(still) }], body.fields);
}

/** Returns whether the upstream evicts content without regard to cache costs. */
function isChangedUpstream(management: unknown): boolean {
  const edits = isRecord(management) && Array.isArray(management.edits) ? management.edits : [];
  return edits.some((edit) => !isRecord(edit) || edit.keep !== "all");
}

function writeTool(tool: ToolDefinition, original?: unknown): string {
  const now = toolOf(tool);
  if (!isRecord(original)) return JSON.stringify(now);
  const { description: _, ...rest } = original;
  return JSON.stringify({ ...rest, ...now });
}

function unknownTool(): UnknownShape {
  return new UnknownShape("a tool is not as the Messages format says");
}

/** Forwards the replies of one turn as one; unaffected events keep their bytes. */
class MessagesTurnWriter implements TurnWriter {
  readonly #recall: string | undefined;
  readonly #hidesSearches: boolean;
  readonly #keepsText: boolean;
  readonly #replies: { readonly blocks: readonly JsonRecord[]; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** Bytes of the current reply, if its content may be needed. */
  #read: Uint8Array<ArrayBuffer>[] = [];
  /** Indexes of blocks that are hidden from the client. */
  #hidden = new Set<number>();
  #callsClient = false;
  /** Its usage so far, in the upstream's fields. */
  #usage: JsonRecord = {};
  /** Usage at the start of its stream. */
  #begun: JsonRecord | undefined;
  #stop: unknown;
  /** Final events: clients disconnect after them, so they are held until the usage is recorded. */
  #held: RawEvent[] = [];
  #ended = false;
  #whole: Uint8Array<ArrayBuffer> = new Uint8Array();

  constructor({ recall, hidesSearches = false, keepsText = false }: TurnWriterOptions) {
    this.#recall = recall;
    this.#hidesSearches = hidesSearches;
    this.#keepsText = keepsText;
  }

  push(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer>[] {
    this.#begin();
    const whole = this.#splitter.cut(bytes);
    if (this.#recall !== undefined || this.#hidesSearches || this.#keepsText) this.#read.push(whole);
    if (this.#passesWhole(whole)) return whole.length > 0 ? [whole] : [];
    return splitEvents(whole).flatMap((event) => this.#pass(event));
  }

  /** Returns whether a piece of a stream can be forwarded unparsed. */
  #passesWhole(bytes: Uint8Array<ArrayBuffer>): boolean {
    if (this.#replies.length > 0 || this.#hidden.size > 0 || this.#held.length > 0) return false;
    const text = decoder.decode(bytes);
    return !WATCHED.some((word) => text.includes(word));
  }

  end(): WireReply {
    this.#begin();
    const rest = this.#splitter.end();
    if (rest) this.#held.push(...this.#pass(rest).map((bytes) => ({ bytes })));
    const isKnown = this.#hidden.size > 0 || this.#replies.length > 0 || this.#keepsText;
    return this.#take(isKnown ? readStreamedBlocks(splitEvents(joinBytes(this.#read))) : []);
  }

  read(bytes: Uint8Array<ArrayBuffer>): WireReply {
    this.#begin();
    const body = asRecord(JSON.parse(decoder.decode(bytes)));
    this.#whole = bytes;
    this.#usage = asRecord(body?.usage) ?? {};
    this.#stop = body?.stop_reason;
    const blocks = Array.isArray(body?.content) ? body.content.filter(isRecord) : [];
    this.#callsClient = blocks.some((block) => isCall(block) && !this.#hides(block));
    return this.#take(blocks);
  }

  finish(): Uint8Array<ArrayBuffer> {
    const changed = this.#hasHidden();
    if (this.#whole.length > 0) {
      if (!changed) return this.#whole;
      const body = JSON.parse(decoder.decode(this.#whole));
      const usage = body.usage === undefined ? {} : { usage: this.#toldUsage(this.#usage) };
      return jsonBytes({ ...this.#ending(body), content: this.#visible(), ...usage });
    }
    return joinBytes(this.#held.map((event) => {
      const data = parseRecord(event.data);
      if (!changed || data?.type !== "message_delta") return event.bytes;
      const usage = this.#toldUsage({ ...this.#usage, ...asRecord(data.usage) });
      return typedEvent({ ...data, delta: this.#ending(asRecord(data.delta) ?? {}), usage });
    }));
  }

  fail(message: string): Uint8Array<ArrayBuffer> {
    return typedEvent({ ...errorBody(502, message) });
  }

  /** Returns the replies and answers that replace the client's one message. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    if (!this.#hasHidden()) return [];
    const [part] = readMessage({ role: "assistant", content: this.#visible() });
    if (!part) return [];
    const items = this.#replies.flatMap(({ reply }, at) => [...reply.items, ...answers[at] ?? []]);
    return [{ replaces: [anchorOf(part.message)], before: [], thoughts: [], items }];
  }

  /** Returns the stop reason for the client: without visible calls, the message ended its turn. */
  #ending(fields: JsonRecord): JsonRecord {
    const stops = fields.stop_reason === "tool_use" && !this.#callsClient;
    return stops ? { ...fields, stop_reason: "end_turn" } : fields;
  }

  /** Returns the last reply's usage for the client: as if the prompt was read once. */
  #toldUsage(usage: JsonRecord): JsonRecord {
    const read = this.#replies.at(-1)?.reply.usage;
    if (!read?.firstRead) return usage;
    const { server_tool_use: _, iterations: __, ...rest } = usage;
    return { ...rest, ...writeMessagesUsage({ ...read.firstRead, outputTokens: read.outputTokens }) };
  }

  #visible(): JsonRecord[] {
    return this.#replies.flatMap(({ blocks }) => blocks.filter((block) => !this.#hides(block)));
  }

  #hasHidden(): boolean {
    return this.#replies.some(({ blocks }) => blocks.some((block) => this.#hides(block)));
  }

  #hides(block: unknown): boolean {
    return this.#isRecall(block) || this.#isSearch(block);
  }

  #isSearch(block: unknown): boolean {
    return this.#hidesSearches && isSearch(block);
  }

  #isRecall(block: unknown): boolean {
    return this.#recall !== undefined && isCall(block) && block.name === this.#recall;
  }

  #take(blocks: readonly JsonRecord[]): WireReply {
    const recalls = blocks.filter((block) => this.#isRecall(block)).map((
      block,
    ): WireReply["recalls"][number] => ({
      id: String(block.id ?? ""),
      arguments: JSON.stringify(block.input ?? {}),
    }));
    const isSearching = blocks.map((block) => this.#isSearch(block) && block.type === "server_tool_use");
    const found = blocks.filter((block, at) =>
      this.#isSearch(block) && isSearching[at - 1] && !isSearching[at]
    );
    const usage = readMessagesUsage(this.#usage, { begun: this.#begun, reads: 1 + found.length });
    // Providers refuse empty texts, even their own.
    const content = blocks.filter(hasContent);
    const isPaused = this.#stop === "pause_turn" && blocks.some((block) => this.#isSearch(block));
    const reply: WireReply = {
      ...(usage && { usage }),
      ...(typeof this.#stop === "string" && { finish: this.#stop }),
      recalls,
      callsClient: this.#callsClient,
      items: content.length > 0 ? [JSON.stringify({ role: "assistant", content })] : [],
      ...(this.#keepsText &&
        { text: blocks.map(({ text }) => typeof text === "string" ? text : "").join("\n") }),
      ...(isPaused && { isPaused }),
    };
    this.#replies.push({ blocks, reply });
    this.#ended = true;
    return reply;
  }

  /** Returns the bytes of an event that the client may see now. */
  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const data = parseRecord(event.data);
    const later = this.#replies.length > 0;
    switch (data?.type) {
      case "message_start":
        this.#usage = this.#begun = asRecord(asRecord(data.message)?.usage) ?? {};
        // For the client, a continued turn has only one start.
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
      if (this.#hides(block)) this.#hidden.add(index);
      else this.#callsClient ||= isCall(block);
    }
    if (this.#hidden.has(index)) return [];
    const hidden = [...this.#hidden].filter((one) => one < index).length;
    const shift = this.#visible().length - hidden;
    return [shift === 0 ? bytes : typedEvent({ ...data, index: index + shift })];
  }

  #begin(): void {
    if (!this.#ended) return;
    this.#ended = false;
    this.#callsClient = false;
    this.#hidden = new Set();
    this.#begun = undefined;
    this.#read = [];
    this.#held = [];
    this.#usage = {};
    this.#stop = undefined;
    this.#splitter = new SseSplitter();
  }
}

/** Markers of an event other than a delta. */
const WATCHED: readonly string[] = ['"content_block_start"', '"message_'];

const decoder = new TextDecoder();

function isCall(block: unknown): block is JsonRecord {
  return isRecord(block) && block.type === "tool_use";
}

/**
 * Returns the messages of an item: one for a reply, otherwise one per block, so that adjacent results and
 * texts can be edited and evicted individually.
 * @throws {UnknownShape} if it isn't valid.
 */
function readMessage(value: unknown): readonly ItemPart[] {
  if (!isRecord(value)) throw unknown("a message");
  const { role, content } = value;
  if (role !== "user" && role !== "assistant" && role !== "system") throw unknown("the role of a message");
  const said = (blocks: unknown) => ({ role, parts: saidParts(withoutMarks(blocks), saidBlock) });
  if (typeof content === "string") {
    return [{ message: { role, content }, text: ["content"], said: said(content) }];
  }
  const blocks = blocksOf(content);
  if (role === "assistant") {
    // Clients may omit reasoning.
    const spoken = blocks.filter((block) => !isThinking(block));
    const mark = blocks.findLast(({ cache_control: mark }) => isRecord(mark))?.cache_control;
    const finds = foundIn(blocks.map(referencesIn));
    const message = { ...readReply(blocks), ...(finds.length > 0 && { keep: true }) };
    return [{
      message,
      // A reply with only reasoning is identified by that.
      said: said(spoken.length > 0 ? spoken : blocks),
      ...(mark !== undefined && { mark: JSON.stringify(mark) }),
      ...(finds.length > 0 && { finds }),
    }];
  }
  // An empty message is still one.
  if (blocks.length === 0) return [{ message: { role, content: [] }, said: said([]) }];
  return blocks.map((block, at): ItemPart => {
    const path = ["content", at];
    const mark = markOf(block);
    const marked = mark === undefined ? {} : { mark: JSON.stringify(mark) };
    if (block.type === "tool_result") {
      const id = textOf(block.tool_use_id);
      const content = block.content ?? "";
      const read = readContent(content);
      const finds = foundIn([content]);
      // Content with found tools, citations or media can't be replaced by a line of text.
      const keeps = Array.isArray(content) && content.some((block) => block?.type !== "text");
      const message: Message = {
        role: "tool",
        tool_call_id: id,
        content: read,
        ...(keeps && { keep: true }),
        ...statedFailure(read, typeof block.is_error === "boolean" ? block.is_error : undefined),
      };
      const text = "content" in block ? { text: [...path, "content"] } : {};
      const holdsMark = mark !== undefined && !isRecord(block.cache_control);
      return {
        message,
        said: said([block]),
        at: path,
        ...text,
        ...marked,
        ...(holdsMark && { holdsMark }),
        ...(finds.length > 0 && { finds }),
      };
    }
    const isText = block.type === "text";
    const read = isText ? textOf(block.text) : readPart(block);
    return {
      message: { role, content: read },
      said: said([block]),
      at: path,
      ...(isText && { text: [...path, "text"] }),
      ...marked,
    };
  });
}

/** Returns the names of referenced tools in lists of blocks. */
function foundIn(lists: readonly unknown[]): readonly string[] {
  return lists.flatMap((blocks) => Array.isArray(blocks) ? blocks : []).flatMap((block: JsonRecord | null) =>
    block?.type === "tool_reference" && typeof block.tool_name === "string" ? [block.tool_name] : []
  );
}

/** Returns the references that the provider's own search found. */
function referencesIn({ content }: JsonRecord): unknown {
  return isRecord(content) ? content.tool_references : undefined;
}

/**
 * Returns the messages of the system prompt, one per block, since only the first blocks may be cached. Cache
 * breakpoints don't separate blocks: clients move them between requests.
 * @throws {UnknownShape} if it isn't valid.
 */
function readSystem(system: unknown): readonly ItemPart[] {
  const said = (blocks: unknown) => ({ role: "system", parts: saidParts(withoutMarks(blocks), saidBlock) });
  if (typeof system === "string") {
    return system === "" ? [] : [{ message: { role: "system", content: system }, said: said(system) }];
  }
  return blocksOf(system ?? []).map((block): ItemPart => {
    const mark = markOf(block);
    return {
      message: { role: "system", content: readPart(block) },
      said: said([block]),
      ...(mark !== undefined && { mark: JSON.stringify(mark) }),
    };
  });
}

/** Returns the meaning of a block. Pairing derives the ids of its calls. */
function saidBlock({ type, ...block }: JsonRecord): unknown {
  if (type === "tool_use") {
    const { id: _, input, ...rest } = block;
    return { type, ...toldFields(rest), input: input ?? {} };
  }
  if (type !== "tool_result") return toldFields({ type, ...block });
  const { tool_use_id: _, content, is_error: failed, ...rest } = block;
  const parts = saidParts(content);
  return { type, ...toldFields(rest), ...(failed === true && { failed }), parts };
}

/** Returns the blocks of content. @throws {UnknownShape} if it has anything else. */
function blocksOf(content: unknown): readonly JsonRecord[] {
  const isList = Array.isArray(content) && content.every((block) => typeof block?.type === "string");
  if (isList) return content;
  throw unknown("a content");
}

/** Returns the breakpoint of a block, or of a block inside a result. */
function markOf({ cache_control: own, type, content }: JsonRecord): unknown {
  if (isRecord(own)) return own;
  if (type !== "tool_result" || !Array.isArray(content)) return undefined;
  return content.findLast((block) => isRecord(block?.cache_control))?.cache_control;
}

function readReply(blocks: readonly JsonRecord[]): AssistantMessage {
  const said: ContentPart[] = [];
  const thoughts: string[] = [];
  const calls: ToolCall[] = [];
  for (const block of blocks) {
    if (block.type === "thinking") thoughts.push(textOf(block.thinking));
    else if (block.type === "tool_use") calls.push(readCall(block));
    else said.push(...readPart(block));
  }
  const [first] = said;
  const content = said.length === 1 && first?.type === "text" ? first.text : said;
  return {
    role: "assistant",
    content: said.length === 0 ? null : content,
    ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function readCall({ id, name, input }: JsonRecord): ToolCall {
  const called = { name: textOf(name), arguments: JSON.stringify(input ?? {}) };
  return { id: textOf(id), type: "function", function: called };
}

function readContent(content: unknown): Content {
  if (typeof content === "string") return content;
  const parts = blocksOf(content).flatMap(readPart);
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts;
}

function readPart(block: JsonRecord): readonly ContentPart[] {
  const { type, text } = block;
  if (type === "text") return [{ type, text: textOf(text) }];
  if (type === "image") return [{ type: "image_url", image_url: { url: "" } }];
  // The provider replaces references by the tools' definitions.
  const finds = foundIn([[block], referencesIn(block)]);
  if (finds.length > 0) return [{ type: "text", text: finds.join("\n") }];
  const { cache_control: _, ...rest } = block;
  if (!isThinking(block)) return partsOfBlock(rest);
  const shorten = (_: string, value: unknown) =>
    typeof value === "string" ? value.slice(0, SEALED_CHARS) : value;
  return [{ type: "text", text: JSON.stringify(rest, shorten) }];
}

/** Stored length of sealed reasoning, in UTF-16 code units: only its provider reads it. */
const SEALED_CHARS = 1_000;

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  throw unknown("a text");
}

function unknown(what: string): UnknownShape {
  return new UnknownShape(`${what} is not as the Messages format says`);
}
