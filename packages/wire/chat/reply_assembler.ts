import type { FinishReason, FunctionToolCall, ModelEvent, Usage } from "@tare/messages";
import { freeCallId } from "@tare/messages/internal";
import { asRecord, type JsonRecord, withoutNulls } from "../json.ts";
import { readUsage } from "./usage.ts";
import { MAX_CALLS, ReplyTooLong } from "../reply_stream.ts";

/** Where providers put the reasoning; some fill several of these with the same text. */
const REASONING_FIELDS = ["reasoning_content", "reasoning", "reasoning_text"];

/** Words for a reply that the provider gave up. */
const FAILED = ["error", "insufficient_system_resource"];

/** Words for why a reply ended. Any other word is taken for `stop`. */
const FINISH_REASONS: Readonly<Record<string, FinishReason>> = {
  length: "length",
  max_tokens: "length",
  model_length: "length",
  content_filter: "content_filter",
};

/** Puts a reply together from the chunks of a chat-completions stream. */
export class ReplyAssembler {
  readonly #calls = new CallAssembler();
  #content: string | null = null;
  #fields: JsonRecord = {};
  #finish = "";
  #usage: Usage | undefined;
  #begun = false;
  #isReply = false;

  /** True once a chunk was one of a chat completion. */
  get isReply(): boolean {
    return this.#isReply;
  }

  /** Takes one chunk and gives what it tells those who watch. */
  read(chunk: unknown): ModelEvent[] {
    const { choices, usage, x_groq: groq } = asRecord(chunk) ?? {};
    this.#isReply ||= Array.isArray(choices);
    const choice = asRecord(Array.isArray(choices) ? choices[0] : undefined) ?? {};
    this.#usage = readUsage(usage) ?? readUsage(choice.usage) ?? readUsage(asRecord(groq)?.usage) ??
      this.#usage;
    if (typeof choice.finish_reason === "string") this.#finish ||= choice.finish_reason;
    const events = this.#take(asRecord(choice.delta) ?? {});
    // Some servers send the whole reply as a message instead of deltas, or once more after them.
    const message = this.#begun || events.length > 0 ? undefined : asRecord(choice.message);
    if (message) events.push(...this.#take(message));
    this.#begun ||= events.length > 0;
    return events;
  }

  /** The whole reply, or nothing if the stream ended before it was whole. */
  finish(takenIds: ReadonlySet<string>): Extract<ModelEvent, { type: "completed" }> | undefined {
    if (!this.#finish || FAILED.includes(this.#finish)) return undefined;
    const calls = this.#calls.finish(takenIds);
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
      ...(this.#usage && { usage: this.#usage }),
    };
  }

  #take({ role: _, content, tool_calls: calls, ...fields }: JsonRecord): ModelEvent[] {
    const events: ModelEvent[] = [];
    const reasoning = reasoningOf(fields);
    if (reasoning) events.push({ type: "reasoning_delta", text: reasoning });
    const text = textOf(content);
    if (text !== undefined) this.#content = (this.#content ?? "") + text;
    const said = (text ?? "") + (typeof fields.refusal === "string" ? fields.refusal : "");
    if (said) events.push({ type: "text_delta", text: said });
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
  /** True if `arguments` came as an object, which is always whole. */
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
  /** Number of the chunk that its newest piece came in. */
  chunk: number;
}

/**
 * Puts tool calls together from the pieces of a stream. By the book, each piece has the index of its call, the first
 * also id and name. In the wild, index and id are missing, shared or repeated, names are split or repeated, and
 * whole calls come at once with their arguments as an object.
 */
export class CallAssembler {
  readonly #calls: PartialCall[] = [];
  readonly #byIndex = new Map<number, PartialCall>();
  /** The first call of each id. */
  readonly #byId = new Map<string, PartialCall>();
  #chunk = 0;

  /** Takes the `tool_calls` of one chunk. @throws {ReplyTooLong} with more than {@linkcode MAX_CALLS}. */
  read(pieces: unknown): CallDelta[] {
    this.#chunk++;
    const list = Array.isArray(pieces) ? pieces : [pieces];
    return list.map(asPiece).filter((piece) => piece !== undefined).map((piece) => this.#add(piece));
  }

  /** The name of a call as far as it has come, by the index in its deltas. */
  nameOf(index: number): string | undefined {
    return this.#calls[index]?.name;
  }

  /** The whole calls, with ids that are not empty, unique, and not among those taken. */
  finish(taken: ReadonlySet<string>): FunctionToolCall[] {
    const used = new Set(taken);
    return this.#calls
      .filter((call) => call.id || call.name || call.arguments)
      .map((call) => {
        const id = freeCallId(call.id, used);
        used.add(id);
        return {
          id,
          type: "function",
          // Providers parse the arguments that are passed back to them.
          function: {
            name: call.name,
            arguments: call.arguments.trim() || "{}",
            ...withoutNulls(call.functionExtra),
          },
          ...withoutNulls(call.extra),
        };
      });
  }

  #add(piece: Piece): CallDelta {
    let call = this.#find(piece);
    if (!call || startsAnew(piece, call, this.#chunk)) {
      const index = this.#calls.length;
      if (index === MAX_CALLS) throw new ReplyTooLong(`it makes more than ${MAX_CALLS} calls of tools`);
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
    // Different calls may share an id; a piece with a name may be the first of its call.
    if (index !== undefined) return this.#byIndex.get(index) ?? (name ? undefined : byId);
    return byId ?? this.#calls.at(-1);
  }
}

/** Whether a piece that seems to continue a call is in truth the first of another. Only a piece with a name can be. */
function startsAnew(piece: Piece, call: PartialCall, chunk: number): boolean {
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
  // Some servers open each call with empty arguments, although more follow.
  else if (call.arguments === "{}" && piece.arguments.trim()) call.arguments = piece.arguments;
  // Some servers send the whole call once more at its end.
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

/** Fields of a part of reasoning whose text grows from delta to delta. */
const GROWING = ["text", "summary", "thinking"];

/**
 * Adds a delta's fields to what came before: texts are joined, lists appended, objects merged, anything else replaced;
 * null adds nothing, but stands where nothing came before. This is how fields arrive that only the provider knows, and
 * they have to be passed back whole.
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

/** Parts of reasoning come in pieces; a piece belongs to the last part if it has its type, index and id. */
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
