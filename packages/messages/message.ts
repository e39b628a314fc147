import type { ToolDefinition } from "./tool.ts";

/** One part of a message's content. */
export type ContentPart =
  /** Text of a message. */
  | {
    readonly type: "text";
    readonly text: string;
  }
  /** An image, by URL or as a `data:` URL. */
  | {
    readonly type: "image_url";
    /** URL of the image, and the level of detail that the model reads. */
    readonly image_url: { readonly url: string; readonly detail?: string };
  }
  /** Audio, as base64. */
  | {
    readonly type: "input_audio";
    /** Base64 data and its format (`wav`, `mp3`). */
    readonly input_audio: { readonly data: string; readonly format: string };
  }
  /** A file, by upload id or as base64. */
  | {
    readonly type: "file";
    /** The id of an upload, or name and base64 data. */
    readonly file: { readonly file_data?: string; readonly file_id?: string; readonly filename?: string };
  }
  /** A video, by URL or as a `data:` URL. */
  | {
    readonly type: "video_url";
    /** URL of the video. */
    readonly video_url: { readonly url: string };
  }
  /** A refusal of the model to answer. */
  | {
    readonly type: "refusal";
    /** The model's explanation. */
    readonly refusal: string;
  };

/** Content of a message: text, or parts in order. */
export type Content = string | readonly ContentPart[];

/** A function call of the model. `arguments` is the JSON text as the model wrote it, valid or not. */
export interface FunctionToolCall {
  /** Id of the call; its result has the same one. */
  readonly id: string;
  readonly type: "function";
  /** Function name and arguments. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A call in an assistant message. */
export type ToolCall =
  | FunctionToolCall
  /** A free-text call (OpenAI's custom tools). */
  | {
    /** Id of the call; its result has the same one. */
    readonly id: string;
    readonly type: "custom";
    /** Tool name and input. */
    readonly custom: { readonly name: string; readonly input: string };
  };

/**
 * A reply of the model with its tool calls. `reasoning_content` is the field in which DeepSeek, vLLM and
 * others pass the model's reasoning; it is sent back unchanged.
 */
export interface AssistantMessage {
  readonly role: "assistant";
  /** The reply's text; often empty or null next to calls. */
  readonly content?: Content | null;
  /** The model's refusal to answer. */
  readonly refusal?: string | null;
  /** Distinguishes several authors of one role. */
  readonly name?: string;
  /** The calls, in the order of the reply. */
  readonly tool_calls?: readonly ToolCall[];
  /** The reasoning, where the provider makes it visible. */
  readonly reasoning_content?: string | null;
  /**
   * Provider-specific data of the reply, which only its provider reads. Never displayed; evicted with the
   * reply. Default: none.
   */
  readonly carried?: {
    /** The provider; other providers receive the reply without this data. Default: unknown. */
    readonly by?: string;
    /** Tokens of sealed reasoning, as the provider counts. Default: the count of its visible text. */
    readonly tokens?: number;
    /** The original items of the reply, sent back unchanged. Default: the reply's fields. */
    readonly items?: readonly Readonly<Record<string, unknown>>[];
  };
  /**
   * Tools that the provider's own search found: the model sees their definitions at this place. Default:
   * none.
   */
  readonly findsTools?: readonly ToolDefinition[];
  /** Whether the message must stay in the prompt, for example because it introduces tools. Default: false. */
  readonly keep?: boolean;
}

/** The result of one tool call. */
export interface ToolMessage {
  readonly role: "tool";
  /** Id of the call that this answers. */
  readonly tool_call_id: string;
  readonly content: Content;
  /** Whether the message must stay in the prompt, for example because it introduces tools. Default: false. */
  readonly keep?: boolean;
  /** Whether the call failed, as reported by its client; overrides detection by text. Default: unknown. */
  readonly failed?: boolean;
  /** Tools that the result names, whose full definitions the provider adds at this place. Default: none. */
  readonly findsTools?: readonly ToolDefinition[];
}

/** A message of the operator or the user. */
export interface PlainMessage<Role extends "system" | "developer" | "user"> {
  readonly role: Role;
  readonly content: Content;
  /** Distinguishes several authors of one role. */
  readonly name?: string;
}

/**
 * A message of the OpenAI chat-completions wire format, as far as Tare reads it. The type is structural:
 * other fields (signatures, provider extensions) are legal on any message and pass through every function of
 * Tare unchanged. Messages are treated as immutable.
 */
export type Message =
  /** Instructions of the operator, for models that call them `system` or `developer`. */
  | PlainMessage<"system">
  | PlainMessage<"developer">
  /** Text of the user. */
  | PlainMessage<"user">
  | AssistantMessage
  | ToolMessage
  /** The result of a call in the wire format that preceded tools. Forwarded, never edited. */
  | {
    readonly role: "function";
    readonly name: string;
    readonly content: string | null;
  };

/** Returns the result of a call: its text, followed by images as `data:` URLs, and whether it failed. */
export function toolResultMessage(
  id: string,
  text: string,
  { pictures = [], failed = false }: {
    readonly pictures?: readonly string[] | undefined;
    readonly failed?: boolean;
  } = {},
): ToolMessage {
  const shown = pictures.map((url): ContentPart => ({ type: "image_url", image_url: { url } }));
  const content = shown.length === 0 ? text : [{ type: "text", text } as const, ...shown];
  return { role: "tool", tool_call_id: id, content, ...(failed && { failed }) };
}

/** Returns the name and arguments of a call: JSON of a function, plain input of a custom tool. */
export function describeCall(call: ToolCall): { readonly name: string; readonly arguments: string } {
  return call.type === "custom"
    ? { name: call.custom.name, arguments: call.custom.input }
    : { name: call.function.name, arguments: call.function.arguments };
}

/**
 * Returns the text of a message's content: the string itself, or its text and refusal parts joined by
 * newlines. Media have no text.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { contentText } from "@tare/messages";
 *
 * assertEquals(contentText([{ type: "text", text: "a" }, { type: "text", text: "b" }]), "a\nb");
 * ```
 */
export function contentText(content: Content | null | undefined): string {
  if (!content) return "";
  if (typeof content === "string") return content;
  const texts: string[] = [];
  for (const part of content) {
    if (part.type === "text") texts.push(part.text);
    else if (part.type === "refusal") texts.push(part.refusal);
  }
  return texts.join("\n");
}

/** Returns a message as plain searchable text: role, text and calls with arguments; media only by kind. */
export function transcribe(message: Message): string {
  const { role, content } = message;
  const others = Array.isArray(content)
    ? content.flatMap(({ type }) => isText(type) ? [] : [`(${type})`])
    : [];
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return [`${role}:`, contentText(content), ...others, ...calls.map(transcribeCall)].filter(Boolean).join(
    "\n",
  );
}

function isText(type: string): boolean {
  return type === "text" || type === "refusal";
}

function transcribeCall(call: ToolCall): string {
  const { name, arguments: input } = describeCall(call);
  return [`calls ${name}`, ...argumentLines(input)].join("\n");
}

function argumentLines(input: string): string[] {
  try {
    const values: unknown = JSON.parse(input);
    if (typeof values !== "object" || values === null || Array.isArray(values)) return [input];
    return Object.entries(values).map(([name, value]) =>
      `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`
    );
  } catch {
    // Free text, or malformed JSON of a model.
    return [input];
  }
}

/** Returns the beginning of a message in one line: at most 120 UTF-16 code units, no character split. */
export function firstWords(content: Content | null | undefined): string {
  const line = contentText(content).slice(0, 10 * MAX_CHARS).replaceAll(/\s+/g, " ").trim();
  return line.slice(0, MAX_CHARS).toWellFormed().replace(/\ufffd$/, "");
}

const MAX_CHARS = 120;

/** Returns a 53-bit hash of a text for caches and comparisons: two joined FNV-1a hashes. Not secure. */
export function hashText(text: string): number {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit, 0x85ebca6b);
    high ^= high >>> 15;
  }
  return (high & 0x1fffff) * 0x1_0000_0000 + (low >>> 0);
}

/** Returns the cached hash of a message or definition; by meaning where {@linkcode tellBy} set it. */
export function hashPiece(piece: Message | ToolDefinition): number {
  return (told.get(piece) ?? toldByBytes(piece)).hash;
}

/** Returns the cached hash of a message's or definition's bytes, which a provider's cache compares. */
export function hashBytes(piece: Message | ToolDefinition): number {
  const known = told.get(piece) ?? toldByBytes(piece);
  return known.bytesHash ??= hashText(JSON.stringify(piece));
}

/**
 * Sets the hash of a message by meaning, equal for other spellings. `bytesHash` default: the hash of its
 * JSON.
 */
export function tellBy(message: Message, hash: number, bytesHash?: number): void {
  told.set(message, { hash, bytesHash });
}

/** Cached hashes of a message or tool. */
interface Told {
  readonly hash: number;
  bytesHash: number | undefined;
}

const told = new WeakMap<Message | ToolDefinition, Told>();

function toldByBytes(piece: Message | ToolDefinition): Told {
  const hash = hashText(JSON.stringify(piece));
  const known = { hash, bytesHash: hash };
  told.set(piece, known);
  return known;
}

/**
 * Name of the tool that calls other tools: its arguments contain the name and arguments of the effective
 * call.
 */
export const CALL_TOOL_NAME = "call_tool";

/** Returns the name and arguments of the effective call: those inside `call_tool`, else its own. */
export function meantCall(call: ToolCall): { readonly name: string; readonly arguments: string } {
  const made = describeCall(call);
  if (made.name !== CALL_TOOL_NAME) return made;
  try {
    const { name, arguments: args = {} } = JSON.parse(made.arguments);
    if (typeof name === "string") return { name, arguments: JSON.stringify(args) };
  } catch {
    // The tool reports malformed arguments to the model.
  }
  return made;
}

/** Returns the ids of all calls in these messages. */
export function callIds(messages: readonly Message[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
}

/** Returns an unused id for a call: the given one, unless it is empty, used, or contains a slash. */
export function freeCallId(id: string, used: ReadonlySet<string>): string {
  if (id !== "" && !used.has(id) && !id.includes("/")) return id;
  let number = used.size + 1;
  while (used.has(`call_${number}`)) number++;
  return `call_${number}`;
}

/**
 * Returns all calls with their answers. Ids may repeat or be empty: the newest message's first open call is
 * answered.
 */
export function pairCalls(messages: readonly Message[]): readonly CallPair[] {
  const pairing = new CallPairing();
  for (const message of messages) pairing.add(message);
  return pairing.pairs;
}

/** A call with its answer. */
export interface CallPair {
  readonly call: ToolCall;
  /** Position of the assistant message that made it. */
  readonly at: number;
  /** Absent: not answered yet. */
  readonly answer?: { readonly at: number; readonly message: ToolMessage };
}

/** Pairs the calls of a growing conversation, message by message, like {@linkcode pairCalls}. */
export class CallPairing {
  /** All calls so far. */
  readonly pairs: CallPair[] = [];
  /** Indexes in `pairs` of the open calls of each id: one list per message with such calls. */
  readonly #open = new Map<string, number[][]>();
  #length = 0;

  /** Adds the next message. Returns the call that it answers. */
  add(message: Message): CallPair | undefined {
    const at = this.#length++;
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) {
        const place = this.pairs.push({ call, at }) - 1;
        const lists = this.#open.get(call.id);
        if (!lists) this.#open.set(call.id, [[place]]);
        else if (this.pairs[lists.at(-1)?.[0] ?? -1]?.at === at) lists.at(-1)?.push(place);
        else lists.push([place]);
      }
    } else if (message.role === "tool") {
      const lists = this.#open.get(message.tool_call_id);
      const place = lists?.at(-1)?.shift();
      const pair = this.pairs[place ?? -1];
      if (place === undefined || !pair) return undefined;
      if (lists?.at(-1)?.length === 0) lists.pop();
      return this.pairs[place] = { ...pair, answer: { at, message } };
    }
    return undefined;
  }
}

/**
 * Returns whether two values are deeply equal, regardless of the order of fields; supports JSON, bytes and
 * URLs.
 */
export function sameData(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  if (Array.isArray(one)) {
    if (!Array.isArray(other) || one.length !== other.length) return false;
    for (let at = 0; at < one.length; at++) if (!sameData(one[at], other[at])) return false;
    return true;
  }
  if (Array.isArray(other)) return false;
  if (one instanceof URL) return other instanceof URL && one.href === other.href;
  if (ArrayBuffer.isView(one)) return ArrayBuffer.isView(other) && sameBytes(one, other);
  const [a, b] = [one as Readonly<Record<string, unknown>>, other as Readonly<Record<string, unknown>>];
  let fields = 0;
  for (const name in a) {
    if (!(name in b) || !sameData(a[name], b[name])) return false;
    fields++;
  }
  for (const _ in b) fields--;
  return fields === 0;
}

function sameBytes(one: ArrayBufferView, other: ArrayBufferView): boolean {
  if (one.byteLength !== other.byteLength) return false;
  const [bytes, others] = [one, other].map(({ buffer, byteOffset, byteLength }) =>
    new Uint8Array(buffer, byteOffset, byteLength)
  );
  return bytes!.every((byte, at) => byte === others![at]);
}

/** Blocks added by agents whose names have neither `_` nor `-`. */
const AGENTS_BLOCKS: readonly string[] = [
  "INSTRUCTIONS",
  "attachments",
  "context",
  "reminder",
  "reminderInstructions",
  "skill",
  "summary",
];

/** Blocks in which agents wrap the user's text. */
const PERSONS_BLOCKS: readonly string[] = ["prompt", "task", "user_message", "user_query", "userRequest"];
const PERSONS_ENDS = new RegExp(`</(?:${PERSONS_BLOCKS.join("|")})>`, "g");

/** Texts that agents write before a summary that continues a conversation, and before rules. */
const SUMMARY =
  /^(?:This session is being continued from a previous conversation|Another language model started to solve this problem|The conversation history before this point was compacted)/;
const RULES_LINE = /^#+ [\w.-]+\.md instructions\b.*$/m;

/** Most blocks of a text that are inspected; the text after them is taken unchanged. */
const MOST_BLOCKS = 64;

/** A line with the start of a block. HTML's own element names have neither `_` nor `-`. */
const BLOCK = /^[ \t]*<([A-Za-z][\w-]*)(?: [^<>\n]*)?>/gm;

/**
 * Returns the text of a message that the user wrote, without rules, environment and reminders, which agents
 * add as blocks such as `<environment_context>` or `<system-reminder>`, and without summaries that continue a
 * conversation. Empty for messages without text of the user.
 */
export function personsWords(
  { role, content }: Pick<Message, "role"> & { readonly content?: Content | null },
): string {
  if (role !== "user" || !content) return "";
  const texts = typeof content === "string"
    ? [content]
    : content.flatMap((part) => part.type === "text" ? [part.text] : []);
  return texts.map(wordsOf).filter((text) => text !== "").join("\n");
}

function wordsOf(text: string): string {
  if (SUMMARY.test(text.trimStart())) return "";
  let [words, from, looked] = ["", 0, 0];
  for (const { 0: { length }, 1: name = "", index } of text.matchAll(BLOCK)) {
    const isPersons = PERSONS_BLOCKS.includes(name);
    if (index < from || !(isPersons || AGENTS_BLOCKS.includes(name) || /[_-]/.test(name))) continue;
    if (++looked > MOST_BLOCKS) break;
    const end = text.indexOf(`</${name}>`, index + length);
    if (end < 0) continue;
    words += text.slice(from, index);
    from = isPersons ? index + length : end + name.length + "</>".length;
  }
  return (words + text.slice(from)).replaceAll(PERSONS_ENDS, "").replace(RULES_LINE, "").trim();
}
