import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  contentText,
  type FinishReason,
  type FunctionToolCall,
  type Message,
  type ModelEvent,
  type ModelRequest,
  type ModelSettings,
  type Usage,
} from "@tare/messages";
import { describeCall, freeCallId } from "@tare/messages/internal";
import { readBilling, readIterations } from "../billing.ts";
import { asRecord, type JsonRecord, withoutNulls } from "../json.ts";
import {
  absentPart,
  EMPTY_MESSAGE,
  type LegalForms,
  type LegalMessage,
  legalPrompt,
  wellFormed,
} from "../legality.ts";
import { MAX_CALLS, ReplyTooLong } from "../sse.ts";

/** The narrowest documented rules of chat-completions servers. */
export const CHAT_FORMS: LegalForms = {
  name: /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
  id: /^[\x20-\x7e]{1,40}$/,
  schema: { makesGrammar: true },
  allowsNoSchema: true,
};

/** Requirements of some servers. */
export interface ChatBodyOptions {
  /** Whether replies without reasoning get a blank one. Default: false. */
  readonly needsReasoning?: boolean | undefined;
  /** Whether results contain their tool's name. Default: false. */
  readonly namesResults?: boolean | undefined;
}

/**
 * Returns the prompt and settings of a chat-completions request that every server accepts. Images in results
 * follow in a user message; illegal names, ids, arguments and schemas are replaced.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { chatBody } from "@tare/wire";
 *
 * const messages = [{ role: "user", content: "Hi." }] as const;
 * assertEquals(chatBody({ messages, tools: [], settings: { seed: 1 } }), { messages: [...messages], seed: 1 });
 * ```
 */
export function chatBody(
  request: Pick<ModelRequest, "messages" | "tools" | "settings">,
  { needsReasoning = false, namesResults = false }: ChatBodyOptions = {},
): JsonRecord {
  const { settings = {} } = request;
  const legal = legalPrompt(request, CHAT_FORMS);
  const tools = legal.tools.map(({ definition }) => definition);
  const named = namesResults ? withNames(legal.messages) : legal.messages.map(({ message }) => message);
  const messages = imagesAfter(named).map((message) => chatMessage(message, needsReasoning));
  return wellFormed({
    messages: messages.length > 0 ? messages : [{ role: "user", content: EMPTY_MESSAGE }],
    // Servers refuse an empty list.
    ...(tools.length > 0 && { tools }),
    ...settingsOf(settings, legal.nameOf),
  });
}

function settingsOf(
  { tool_choice: choice, ...settings }: ModelSettings,
  nameOf: (name: string) => string,
): JsonRecord {
  if (choice === undefined || choice === "required") {
    return { ...settings, ...(choice && { tool_choice: choice }) };
  }
  return {
    ...settings,
    tool_choice: { ...choice, function: { ...choice.function, name: nameOf(choice.function.name) } },
  };
}

function withNames(messages: readonly LegalMessage[]): readonly Message[] {
  const names = new Map<string, string>();
  return messages.map(({ message }) => {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) names.set(call.id, describeCall(call).name);
    }
    return message.role === "tool" ? { ...message, name: names.get(message.tool_call_id) ?? "" } : message;
  });
}

/** Removes planner fields. */
function chatMessage(message: Message, needsReasoning: boolean): Message {
  if (message.role === "assistant") return chatReply(message, needsReasoning);
  if (message.role === "function") return message;
  const { keep: _, failed: __, findsTools: ___, ...sent } = { keep: 0, failed: 0, findsTools: 0, ...message };
  const content = contentFor(message.role, message.content);
  const isEmpty = content.length === 0 && message.role !== "tool";
  const visible = isEmpty ? EMPTY_MESSAGE : content.length === 0 ? "" : content;
  return withLegalName({ ...sent, content: visible });
}

/** Accepted author names. */
const WRITER = /^[A-Za-z0-9_-]{1,64}$/;

function withLegalName<Sent extends Message>(message: Sent): Sent {
  if (!("name" in message) || WRITER.test(String(message.name))) return message;
  const { name: _, ...rest } = message;
  return rest as Sent;
}

function chatReply(message: AssistantMessage, needsReasoning: boolean): Message {
  const { carried: _, keep: __, findsTools: ___, refusal, ...rest } = message;
  const content = message.content && contentFor("assistant", message.content);
  const isSilent = !content || content.length === 0;
  const hasCalls = (message.tool_calls ?? []).length > 0;
  return withLegalName({
    ...rest,
    // Some servers require text, without a refusal next to it.
    ...(isSilent
      ? { content: hasCalls ? message.content === "" ? "" : null : refusal || EMPTY_MESSAGE }
      : { content }),
    ...(!isSilent && refusal !== undefined && { refusal }),
    ...(needsReasoning && !rest.reasoning_content && { reasoning_content: " " }),
  });
}

/** Removes parts that a role doesn't support. */
function contentFor(role: "system" | "developer" | "user" | "assistant" | "tool", content: Content): Content {
  if (typeof content === "string") return content;
  const parts = content.map((part) => partFor(role, part)).filter((part) =>
    part.type === "text" ? part.text !== "" : part.type !== "refusal" || part.refusal !== ""
  );
  return parts.length === content.length && parts.every((part, at) => part === content[at]) ? content : parts;
}

function partFor(role: Parameters<typeof contentFor>[0], part: ContentPart): ContentPart {
  if (part.type === "text") return part;
  if (part.type === "refusal") return role === "assistant" ? part : { type: "text", text: part.refusal };
  return role === "user" ? part : { type: "text", text: absentPart(part.type) };
}

const IMAGES_HEADING = "Images from the calls above:";

/** Moves images of results, which may only contain text, to a user message after a step. */
function imagesAfter(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message) => message.role === "tool" && typeof message.content !== "string")) {
    return messages;
  }
  const sent: Message[] = [];
  let parts: ContentPart[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool" && typeof message.content !== "string") {
      const images = message.content.filter(isImage);
      const others = message.content.filter((part) => !isImage(part)).map((part) => partFor("tool", part));
      sent.push({ ...message, content: contentText(others) });
      parts.push(...images);
    } else sent.push(message);
    if (parts.length === 0 || messages[at + 1]?.role === "tool") continue;
    sent.push({ role: "user", content: [{ type: "text", text: IMAGES_HEADING }, ...parts] });
    parts = [];
  }
  return sent;
}

function isImage({ type }: ContentPart): boolean {
  return type === "image_url";
}

/** Some providers fill several with the same text. */
const REASONING_FIELDS = ["reasoning_content", "reasoning", "reasoning_text"];

/** Finish reasons of abandoned replies. */
const FAILED = ["error", "insufficient_system_resource"];

/** Other finish reasons mean `stop`. */
const FINISH_REASONS: Readonly<Record<string, FinishReason>> = {
  length: "length",
  max_tokens: "length",
  model_length: "length",
  content_filter: "content_filter",
};

/** Assembles a streamed chat completion. */
export class ReplyAssembler {
  readonly #calls = new CallAssembler();
  #content: string | null = null;
  #fields: JsonRecord = {};
  #finish = "";
  #usage: unknown;
  #tier: unknown;
  #begun = false;
  #isReply = false;

  /** Whether a chunk belonged to a chat completion. */
  get isReply(): boolean {
    return this.#isReply;
  }

  /** Reads one chunk. Returns its events. */
  read(chunk: unknown): ModelEvent[] {
    const { choices, usage, x_groq: groq, service_tier: tier } = asRecord(chunk) ?? {};
    this.#isReply ||= Array.isArray(choices);
    const choice = asRecord(Array.isArray(choices) ? choices[0] : undefined) ?? {};
    this.#usage = [usage, choice.usage, asRecord(groq)?.usage].find((counted) => readUsage(counted)) ??
      this.#usage;
    this.#tier = tier ?? this.#tier;
    if (typeof choice.finish_reason === "string") this.#finish ||= choice.finish_reason;
    const events = this.#take(asRecord(choice.delta) ?? {});
    // Some servers send a whole message instead of, or after, deltas.
    const message = this.#begun || events.length > 0 ? undefined : asRecord(choice.message);
    if (message) events.push(...this.#take(message));
    this.#begun ||= events.length > 0;
    return events;
  }

  /** Returns the complete reply; `undefined` before its end. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (!this.#finish || FAILED.includes(this.#finish)) return undefined;
    const calls = this.#calls.finish(takenIds);
    const usage = readUsage(this.#usage, { service_tier: this.#tier });
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
      ...(usage && { usage }),
    };
  }

  #take({ role: _, content, tool_calls: calls, ...fields }: JsonRecord): ModelEvent[] {
    const events: ModelEvent[] = [];
    const reasoning = reasoningOf(fields);
    if (reasoning) events.push({ type: "reasoning_delta", text: reasoning });
    const text = textOf(content);
    if (text !== undefined) this.#content = (this.#content ?? "") + text;
    const ownText = (text ?? "") + (typeof fields.refusal === "string" ? fields.refusal : "");
    if (ownText) events.push({ type: "text_delta", text: ownText });
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

type CallDelta = Extract<ModelEvent, { type: "tool_call_delta" }>;

interface Piece {
  readonly index: number | undefined;
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
  /** Whether `arguments` came as a complete object. */
  readonly isWhole: boolean;
  readonly extra: JsonRecord;
  readonly functionExtra: JsonRecord;
}

interface PartialCall {
  readonly index: number;
  id: string;
  name: string;
  arguments: string;
  extra: JsonRecord;
  functionExtra: JsonRecord;
  chunk: number;
}

/**
 * Assembles tool calls. By the specification, each piece has the index of its call, the first also id and
 * name. In practice, indexes and ids are missing, shared or repeated, names are split or repeated, and
 * arguments arrive as complete objects.
 */
export class CallAssembler {
  readonly #calls: PartialCall[] = [];
  readonly #byIndex = new Map<number, PartialCall>();
  readonly #byId = new Map<string, PartialCall>();
  #chunk = 0;

  /** Reads one chunk's `tool_calls`. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS}. */
  read(pieces: unknown): CallDelta[] {
    this.#chunk++;
    const list = Array.isArray(pieces) ? pieces : [pieces];
    return list.map(asPiece).filter((piece) => piece !== undefined).map((piece) => this.#add(piece));
  }

  nameOf(index: number): string | undefined {
    return this.#calls[index]?.name;
  }

  /** Returns a call as far as it has been read. */
  callAt(index: number): JsonRecord {
    const call = this.#calls[index];
    return call ? { ...finished(call, call.id || `call_${index + 1}`) } : {};
  }

  finish(taken: ReadonlySet<string>): FunctionToolCall[] {
    const used = new Set(taken);
    return this.#calls
      .filter((call) => call.id || call.name || call.arguments)
      .map((call) => {
        const id = freeCallId(call.id, used);
        used.add(id);
        return finished(call, id);
      });
  }

  #add(piece: Piece): CallDelta {
    let call = this.#find(piece);
    if (!call || startsNewCall(piece, call, this.#chunk)) {
      const index = this.#calls.length;
      if (index === MAX_CALLS) throw new ReplyTooLong(`it makes more than ${MAX_CALLS} tool calls`);
      call = { index, id: "", name: "", arguments: "", extra: {}, functionExtra: {}, chunk: this.#chunk };
      this.#calls.push(call);
      if (piece.index !== undefined) this.#byIndex.set(piece.index, call);
    }
    call.chunk = this.#chunk;
    call.id ||= piece.id;
    if (call.id && !this.#byId.has(call.id)) this.#byId.set(call.id, call);
    addName(call, piece);
    addArguments(call, piece);
    call.extra = mergeDelta(call.extra, piece.extra);
    call.functionExtra = mergeDelta(call.functionExtra, piece.functionExtra);
    return {
      type: "tool_call_delta",
      index: call.index,
      ...(piece.id && { id: piece.id }),
      ...(piece.name && { name: piece.name }),
      ...(piece.arguments && { arguments: piece.arguments }),
    };
  }

  #find({ index, id, name }: Piece): PartialCall | undefined {
    const byId = id ? this.#byId.get(id) : undefined;
    // Ids may be shared; a piece with a name may begin a call.
    if (index !== undefined) return this.#byIndex.get(index) ?? (name ? undefined : byId);
    return byId ?? this.#calls.at(-1);
  }
}

function finished(call: PartialCall, id: string): FunctionToolCall {
  return {
    id,
    type: "function",
    // Providers parse arguments that are sent back.
    function: {
      name: call.name,
      arguments: call.arguments.trim() || "{}",
      ...withoutNulls(call.functionExtra),
    },
    ...withoutNulls(call.extra),
  };
}

/** Returns whether a piece begins a call instead of continuing one. */
function startsNewCall(piece: Piece, call: PartialCall, chunk: number): boolean {
  if (!piece.name) return false;
  if (call.chunk === chunk) {
    const same = piece.id !== "" && piece.id === call.id && piece.name === call.name;
    return !same || isJsonObject(call.arguments);
  }
  if (piece.id && call.id) return piece.id !== call.id;
  return (piece.arguments.trimStart().startsWith("{") || piece.name !== call.name) &&
    isJsonObject(call.arguments);
}

function addName(call: PartialCall, { name }: Piece): void {
  // Repeated or grown names replace, split ones are joined.
  if (name.startsWith(call.name)) call.name = name;
  else if (!call.arguments) call.name += name;
}

function addArguments(call: PartialCall, piece: Piece): void {
  if (piece.isWhole) call.arguments = piece.arguments;
  // Some servers begin calls with empty arguments.
  else if (call.arguments === "{}" && piece.arguments.trim()) call.arguments = piece.arguments;
  // Some servers repeat the whole call at its end.
  else if (piece.arguments !== call.arguments || !isJsonObject(call.arguments)) {
    call.arguments += piece.arguments;
  }
}

function asPiece(value: unknown): Piece | undefined {
  const piece = asRecord(value);
  if (!piece) return undefined;
  const { index, id, type: _, function: inner, ...extra } = piece;
  const { name, arguments: text, ...functionExtra } = asRecord(inner) ?? {};
  const isWhole = typeof text === "object" && text !== null;
  return {
    index: typeof index === "number" ? index : undefined,
    id: typeof id === "string" ? id : "",
    name: typeof name === "string" ? name : "",
    arguments: isWhole ? JSON.stringify(text) : typeof text === "string" ? text : "",
    isWhole,
    extra,
    functionExtra,
  };
}

function isJsonObject(text: string): boolean {
  try {
    return asRecord(JSON.parse(text)) !== undefined;
  } catch {
    return false;
  }
}

/** Reasoning fields whose text grows. */
const GROWING = ["text", "summary", "thinking"];

/**
 * Adds a delta: texts are joined, lists appended, objects merged, others replaced; null only fills absent
 * fields. Preserves provider-specific fields, which must be sent back.
 */
export function mergeDelta(before: JsonRecord, delta: JsonRecord): JsonRecord {
  const merged: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(delta)) merged[name] = mergeValue(merged[name], value);
  return merged;
}

function mergeValue(before: unknown, value: unknown): unknown {
  if (value === null || value === undefined) return before ?? value;
  if (typeof before === "string" && typeof value === "string") return before + value;
  if (Array.isArray(before) && Array.isArray(value)) {
    const parts = [...before];
    for (const piece of value) appendPart(parts, piece);
    return parts;
  }
  const [old, added] = [asRecord(before), asRecord(value)];
  return old && added ? mergeDelta(old, added) : value;
}

/** Extends the last part if type, index and id match. */
function appendPart(parts: unknown[], piece: unknown): void {
  const [last, added] = [asRecord(parts.at(-1)), asRecord(piece)];
  const continues = last && added && [...GROWING, "signature"].some((name) => name in added) &&
    last.type === added.type && last.index === added.index && (added.id ?? last.id) === (last.id ?? added.id);
  if (!continues) {
    parts.push(piece);
    return;
  }
  const whole: Record<string, unknown> = { ...last };
  for (const [name, value] of Object.entries(added)) {
    if (value === null) continue;
    whole[name] = GROWING.includes(name) ? mergeValue(whole[name], value) : value;
  }
  parts[parts.length - 1] = whole;
}

export function writeUsage(
  usage: Usage,
  dialect: "openai" | "deepseek" | "anthropic" = "openai",
): JsonRecord {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, reasoningTokens } = usage;
  const common = {
    prompt_tokens: promptTokens,
    completion_tokens: outputTokens,
    total_tokens: promptTokens + outputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(reasoningTokens !== undefined &&
      { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
  };
  switch (dialect) {
    case "openai":
      return common;
    case "deepseek":
      return {
        ...common,
        prompt_cache_hit_tokens: cachedTokens,
        prompt_cache_miss_tokens: promptTokens - cachedTokens,
      };
    case "anthropic":
      return {
        ...common,
        prompt_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: cacheWriteTokens },
        cache_read_input_tokens: cachedTokens,
        cache_creation_input_tokens: cacheWriteTokens,
      };
  }
}

/**
 * Reads a provider's `usage` in any dialect of a `CompletionWriter`, or one of these:
 * - Moonshot: `cached_tokens`
 * - OpenRouter: `prompt_tokens_details.cache_write_tokens`
 * - Anthropic: `input_tokens` without cache reads and writes
 * - xAI: `completion_tokens` without reasoning, which `total_tokens` includes
 *
 * @param reply The whole reply, which may contain its tier and the provider's own tools. Default: unknown.
 * @returns The usage, or `undefined` without prompt tokens.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { readUsage } from "@tare/wire";
 *
 * const usage = { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: 5 };
 * assertEquals(readUsage(usage), { promptTokens: 100, cachedTokens: 90, outputTokens: 5 });
 * ```
 */
export function readUsage(value: unknown, reply: JsonRecord = {}): Usage | undefined {
  const usage = asRecord(value);
  if (!usage) return undefined;
  const { own, first, model, innerCalls } = readIterations(usage.iterations, readTokens);
  const reported = readTokens(usage) ?? own ?? (innerCalls.length > 0 ? NOTHING_READ : undefined);
  if (!reported) return undefined;
  const whole = own ? { cacheWriteTokens: 0, ...reported } : reported;
  const { promptTokens = 0 } = own ?? {};
  const { outputTokens: _, ...firstRead } = first ?? whole;
  // The request's own prompt was then read by the compaction.
  const isCompacted = innerCalls.some(({ type }) => type === "compaction");
  return {
    ...(promptTokens > whole.promptTokens || model !== undefined ? own : undefined) ?? whole,
    outputTokens: Math.max(own?.outputTokens ?? 0, whole.outputTokens),
    ...(reasoningTokensOf(usage) > 0 && { reasoningTokens: reasoningTokensOf(usage) }),
    ...((isCompacted || first && promptTokens >= whole.promptTokens) &&
      { firstRead: { ...firstRead, ...(isCompacted && { estimated: true }) } }),
    ...(model !== undefined && { model }),
    ...readBilling(usage, reply),
    ...(innerCalls.length > 0 && { innerCalls }),
  };
}

/** Tokens of a reply that contains only a compaction. */
const NOTHING_READ: Usage = { promptTokens: 0, cachedTokens: 0, outputTokens: 0 };

function readTokens(usage: JsonRecord): Usage | undefined {
  const details = asRecord(usage.prompt_tokens_details) ?? asRecord(usage.input_tokens_details) ?? {};
  const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: hour } =
    asRecord(usage.cache_creation) ?? {};
  const hourWriteTokens = largest(hour);
  const created = largest(
    usage.cache_creation_input_tokens,
    largest(short, hour) === undefined ? undefined : (largest(short) ?? 0) + (hourWriteTokens ?? 0),
  );
  const cachedTokens = largest(
    details.cached_tokens,
    usage.prompt_cache_hit_tokens,
    usage.cache_read_input_tokens,
    usage.cached_tokens,
  ) ?? 0;
  const cacheWriteTokens = largest(
    details.cache_write_tokens,
    details.cache_creation_tokens,
    usage.cache_write_tokens,
    created,
  );
  const promptTokens = wholePrompt(usage, { created, cacheTokens: cachedTokens + (cacheWriteTokens ?? 0) });
  if (!promptTokens) return undefined;
  return {
    promptTokens,
    cachedTokens,
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens }),
    ...(hourWriteTokens !== undefined && { hourWriteTokens }),
    outputTokens: wholeOutput(usage),
  };
}

function wholePrompt(
  usage: JsonRecord,
  { created = 0, cacheTokens }: { readonly created: number | undefined; readonly cacheTokens: number },
): number {
  const limit = largest(
    usage.prompt_tokens,
    (largest(usage.prompt_cache_hit_tokens) ?? 0) + (largest(usage.prompt_cache_miss_tokens) ?? 0),
    (largest(usage.input_tokens) ?? 0) + (largest(usage.cache_read_input_tokens) ?? 0) + created,
  ) ?? 0;
  // A total below the cached tokens excludes them.
  return limit > 0 && limit < cacheTokens ? limit + cacheTokens : limit;
}

function wholeOutput(usage: JsonRecord): number {
  const written = largest(usage.completion_tokens, usage.output_tokens) ?? 0;
  const reasoning = largest(asRecord(usage.completion_tokens_details)?.reasoning_tokens) ?? 0;
  const apart = (largest(usage.prompt_tokens) ?? 0) + written + reasoning;
  return (largest(usage.total_tokens) ?? 0) >= apart ? written + reasoning : written;
}

function reasoningTokensOf(usage: JsonRecord): number {
  const details = asRecord(usage.completion_tokens_details) ?? asRecord(usage.output_tokens_details);
  return largest(details?.reasoning_tokens) ?? 0;
}

function largest(...values: readonly unknown[]): number | undefined {
  const counts = values.filter((value) => typeof value === "number" && Number.isFinite(value) && value >= 0);
  return counts.length > 0 ? Math.max(...counts as number[]) : undefined;
}
