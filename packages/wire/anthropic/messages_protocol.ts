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
  readCacheBreakpoints,
  withoutBreakpoints,
} from "./cache_breakpoints.ts";
import { meaningfulFields, meaningfulParts, statedFailure } from "../meaning.ts";
import { errorBody } from "./write_message.ts";
import { toolOf } from "./write_messages_body.ts";
import { type RawEvent, splitEvents, SseSplitter, typedEvent } from "../sse.ts";
import { readMessagesUsage, readStreamedBlocks, writeMessagesUsage } from "./message_assembler.ts";
import { isLimitExhausted, isSubscription, keepAliveBody, readAnswerBlocks } from "./keep_alive.ts";
import { isSearch, TOOL_SEARCH } from "./tool_search.ts";
import { anchorOf, readCommonHints, readField, wholeTool } from "../request.ts";

/** Signed-in clients send a bearer token. */
const API_KEY: Protocol["auth"] = {
  headers: ["x-api-key", "authorization"],
  name: "x-api-key",
  prefix: "",
};

/** Claude Code's session id; its device id may change during the first starts. */
const SESSION_ID = /"session_id":"([^"]+)"/;

/** Beta header of a million-token context window, possibly in a list. */
const MILLION = /(?:^|[\s,])context-1m-/;

/**
 * Anthropic's Messages. A reply is one planner message, and each block of a user item is another, so that
 * results are edited individually. Cache breakpoints aren't content, and are never lost.
 */
export const MESSAGES_PROTOCOL: Protocol = {
  name: "messages",
  path: "/messages",
  countPath: "/messages/count_tokens",
  listField: "messages",
  head: { fields: ["system"], read: ([system]) => readSystem(system) },
  replyFields: ["max_tokens"],
  minReplyTokens: 1,
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
      // The upstream stores a thread's history; its tools must stay unchanged.
      isDetached: isRecord(readField(body, "thread")) ||
        isChangedUpstream(readField(body, "context_management")),
    };
  },
  cacheTtlMs: (request) => readCacheBreakpoints(request).at(-1)?.ttlMs ?? 0,
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
    const { cache_control: _, defer_loading: isDeferred, ...rest } = tool;
    const { type, name, description, input_schema: parameters } = rest;
    const inFront = isDeferred !== true;
    if ((type ?? "custom") !== "custom") return { ...wholeTool(rest), inFront };
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
  keepAlive: {
    readAnswerBlocks,
    write: keepAliveBody,
    readUsage(bytes) {
      const reply = asRecord(JSON.parse(decoder.decode(bytes))) ?? {};
      return readMessagesUsage(reply.usage, { reply });
    },
    isLimitExhausted,
    isSubscription,
    mustReply: (request) => asRecord(readField(request, "thinking"))?.type === "enabled",
  },
  writer: (_, options) => new MessagesTurnWriter(options),
  refuse: (status, message) => Response.json(errorBody(status, message), { status }),
};

const ID_FIELDS: Readonly<Record<string, string>> = { tool_use: "id", tool_result: "tool_use_id" };

/** Claude Code's billing line, with a varying number. */
const BILLING = /^(x-anthropic-billing-header:[^]*?\bcch=)([0-9a-z]+)/i;

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

/** Returns whether the upstream evicts content regardless of cache costs. */
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
  return new UnknownShape("a tool is invalid in the Messages format");
}

/** Forwards the replies of one turn as one; unaffected events keep their bytes. */
class MessagesTurnWriter implements TurnWriter {
  readonly #recall: string | undefined;
  readonly #hidesSearches: boolean;
  readonly #keepsText: boolean;
  readonly #replies: { readonly blocks: readonly JsonRecord[]; readonly reply: WireReply }[] = [];
  #splitter = new SseSplitter();
  /** Current reply, if its content may be needed. */
  #read: Uint8Array<ArrayBuffer>[] = [];
  /** Indexes of blocks hidden from the client. */
  #hidden = new Set<number>();
  #callsClient = false;
  /** Usage in the upstream's fields. */
  #usage: JsonRecord = {};
  /** Usage at the start of the stream. */
  #begun: JsonRecord | undefined;
  #stop: unknown;
  /** Final events, held until the usage is recorded, as clients disconnect after them. */
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
      const usage = body.usage === undefined ? {} : { usage: this.#reportedUsage(this.#usage) };
      return jsonBytes({ ...this.#ending(body), content: this.#visible(), ...usage });
    }
    return joinBytes(this.#held.map((event) => {
      const data = parseRecord(event.data);
      if (!changed || data?.type !== "message_delta") return event.bytes;
      const usage = this.#reportedUsage({ ...this.#usage, ...asRecord(data.usage) });
      return typedEvent({ ...data, delta: this.#ending(asRecord(data.delta) ?? {}), usage });
    }));
  }

  fail(message: string): Uint8Array<ArrayBuffer> {
    return typedEvent({ ...errorBody(502, message) });
  }

  /** Returns the items that replace the client's one message. */
  hidden(answers: readonly (readonly string[])[]): HiddenItems[] {
    if (!this.#hasHidden()) return [];
    const [part] = readMessage({ role: "assistant", content: this.#visible() });
    if (!part) return [];
    const items = this.#replies.flatMap(({ reply }, at) => [...reply.items, ...answers[at] ?? []]);
    return [{ replaces: [anchorOf(part.message)], before: [], thoughts: [], items }];
  }

  #ending(fields: JsonRecord): JsonRecord {
    const stops = fields.stop_reason === "tool_use" && !this.#callsClient;
    return stops ? { ...fields, stop_reason: "end_turn" } : fields;
  }

  /** Returns the usage of a single prompt read. */
  #reportedUsage(usage: JsonRecord): JsonRecord {
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
      name: String(block.name),
      arguments: JSON.stringify(block.input ?? {}),
    }));
    const isSearching = blocks.map((block) => this.#isSearch(block) && block.type === "server_tool_use");
    const found = blocks.filter((block, at) =>
      this.#isSearch(block) && isSearching[at - 1] && !isSearching[at]
    );
    const usage = readMessagesUsage(this.#usage, {
      begun: this.#begun,
      reads: 1 + found.length,
      reply: { content: blocks },
    });
    // Providers refuse even their own empty texts.
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

  #pass(event: RawEvent): Uint8Array<ArrayBuffer>[] {
    const data = parseRecord(event.data);
    const later = this.#replies.length > 0;
    switch (data?.type) {
      case "message_start":
        this.#usage = this.#begun = asRecord(asRecord(data.message)?.usage) ?? {};
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

/** Markers of events other than deltas. */
const WATCHED: readonly string[] = ['"content_block_start"', '"message_'];

const decoder = new TextDecoder();

function isCall(block: unknown): block is JsonRecord {
  return isRecord(block) && block.type === "tool_use";
}

/**
 * Returns one message for a reply, otherwise one per block, so that adjacent results and texts are edited and
 * evicted individually.
 * @throws {UnknownShape} if it isn't valid.
 */
function readMessage(value: unknown): readonly ItemPart[] {
  if (!isRecord(value)) throw unknown("a message");
  const { role, content } = value;
  if (role !== "user" && role !== "assistant" && role !== "system") throw unknown("the role of a message");
  const meaningOf = (blocks: unknown) => ({
    role,
    parts: meaningfulParts(withoutBreakpoints(blocks), blockMeaning),
  });
  if (typeof content === "string") {
    return [{ message: { role, content }, text: ["content"], meaning: meaningOf(content) }];
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
      meaning: meaningOf(spoken.length > 0 ? spoken : blocks),
      ...(mark !== undefined && { mark: JSON.stringify(mark) }),
      ...(finds.length > 0 && { finds }),
    }];
  }
  // An empty message is still one.
  if (blocks.length === 0) return [{ message: { role, content: [] }, meaning: meaningOf([]) }];
  return blocks.map((block, at): ItemPart => {
    const path = ["content", at];
    const mark = markOf(block);
    const marked = mark === undefined ? {} : { mark: JSON.stringify(mark) };
    if (block.type === "tool_result") {
      const id = textOf(block.tool_use_id);
      const content = block.content ?? "";
      const read = readContent(content);
      const finds = foundIn([content]);
      // No text can replace found tools, citations or media.
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
        meaning: meaningOf([block]),
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
      meaning: meaningOf([block]),
      at: path,
      ...(isText && { text: [...path, "text"] }),
      ...marked,
    };
  });
}

function foundIn(lists: readonly unknown[]): readonly string[] {
  return lists.flatMap((blocks) => Array.isArray(blocks) ? blocks : []).flatMap((block: JsonRecord | null) =>
    block?.type === "tool_reference" && typeof block.tool_name === "string" ? [block.tool_name] : []
  );
}

function referencesIn({ content }: JsonRecord): unknown {
  return isRecord(content) ? content.tool_references : undefined;
}

/**
 * Returns the system prompt, one message per block, since only the first blocks may be cached. Cache
 * breakpoints don't separate blocks: clients move them between requests.
 * @throws {UnknownShape} if it isn't valid.
 */
function readSystem(system: unknown): readonly ItemPart[] {
  const meaningOf = (blocks: unknown) => ({
    role: "system",
    parts: meaningfulParts(withoutBreakpoints(blocks), blockMeaning),
  });
  if (typeof system === "string") {
    return system === ""
      ? []
      : [{ message: { role: "system", content: system }, meaning: meaningOf(system) }];
  }
  return blocksOf(system ?? []).map((block): ItemPart => {
    const mark = markOf(block);
    return {
      message: { role: "system", content: readPart(block) },
      meaning: meaningOf([block]),
      ...(mark !== undefined && { mark: JSON.stringify(mark) }),
    };
  });
}

/** Returns a block's meaning, without the id of a call. */
function blockMeaning({ type, ...block }: JsonRecord): unknown {
  if (type === "tool_use") {
    const { id: _, input, ...rest } = block;
    return { type, ...meaningfulFields(rest), input: input ?? {} };
  }
  if (type !== "tool_result") return meaningfulFields({ type, ...block });
  const { tool_use_id: _, content, is_error: failed, ...rest } = block;
  const parts = meaningfulParts(content);
  return { type, ...meaningfulFields(rest), ...(failed === true && { failed }), parts };
}

/** @throws {UnknownShape} if content has other values than blocks. */
function blocksOf(content: unknown): readonly JsonRecord[] {
  const isList = Array.isArray(content) && content.every((block) => typeof block?.type === "string");
  if (isList) return content;
  throw unknown("content");
}

/** Returns the breakpoint of a block, or inside a result. */
function markOf({ cache_control: own, type, content }: JsonRecord): unknown {
  if (isRecord(own)) return own;
  if (type !== "tool_result" || !Array.isArray(content)) return undefined;
  return content.findLast((block) => isRecord(block?.cache_control))?.cache_control;
}

function readReply(blocks: readonly JsonRecord[]): AssistantMessage {
  const parts: ContentPart[] = [];
  const thoughts: string[] = [];
  const calls: ToolCall[] = [];
  for (const block of blocks) {
    if (block.type === "thinking") thoughts.push(textOf(block.thinking));
    else if (block.type === "tool_use") calls.push(readCall(block));
    else parts.push(...readPart(block));
  }
  const [first] = parts;
  const content = parts.length === 1 && first?.type === "text" ? first.text : parts;
  return {
    role: "assistant",
    content: parts.length === 0 ? null : content,
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
  // The provider replaces references by definitions.
  const finds = foundIn([[block], referencesIn(block)]);
  if (finds.length > 0) return [{ type: "text", text: finds.join("\n") }];
  const { cache_control: _, ...rest } = block;
  if (!isThinking(block)) return partsOfBlock(rest);
  const shorten = (_: string, value: unknown) =>
    typeof value === "string" ? value.slice(0, SEALED_CHARS) : value;
  return [{ type: "text", text: JSON.stringify(rest, shorten) }];
}

/** Stored length of sealed reasoning, in UTF-16 code units. */
const SEALED_CHARS = 1_000;

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  throw unknown("a text");
}

function unknown(what: string): UnknownShape {
  return new UnknownShape(`${what} is invalid in the Messages format`);
}
