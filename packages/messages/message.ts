import type { ToolDefinition } from "./tool.ts";

/** Part of a message. */
export type ContentPart =
  | {
    readonly type: "text";
    readonly text: string;
  }
  /** An image. */
  | {
    readonly type: "image_url";
    /** Address or `data:` URL, and the level of detail. */
    readonly image_url: { readonly url: string; readonly detail?: string };
  }
  | {
    readonly type: "input_audio";
    /** Base64 data and its format (`wav`, `mp3`). */
    readonly input_audio: { readonly data: string; readonly format: string };
  }
  | {
    readonly type: "file";
    /** An upload's id, or name and base64 data. */
    readonly file: { readonly file_data?: string; readonly file_id?: string; readonly filename?: string };
  }
  | {
    readonly type: "video_url";
    /** Address or `data:` URL. */
    readonly video_url: { readonly url: string };
  }
  | {
    readonly type: "refusal";
    readonly refusal: string;
  };

/** Content of a message: text, or parts in order. */
export type Content = string | readonly ContentPart[];

/** A function call of the model. `arguments` is its JSON text, valid or not. */
export interface FunctionToolCall {
  /** Id that the result repeats. */
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A function call, or a free-text call (OpenAI's custom tools). */
export type ToolCall =
  | FunctionToolCall
  | {
    readonly id: string;
    readonly type: "custom";
    readonly custom: { readonly name: string; readonly input: string };
  };

/**
 * A reply of the model. `reasoning_content` is the field of DeepSeek, vLLM and others for reasoning; it is
 * sent back unchanged.
 */
export interface AssistantMessage {
  readonly role: "assistant";
  readonly content?: Content | null;
  readonly refusal?: string | null;
  readonly name?: string;
  readonly tool_calls?: readonly ToolCall[];
  /** Visible reasoning. */
  readonly reasoning_content?: string | null;
  /** Provider-specific data, sent back only to its provider and never displayed. Default: none. */
  readonly carried?: {
    /** The provider. Default: unknown. */
    readonly by?: string;
    /** Tokens of sealed reasoning, as reported. Default: those of its visible text. */
    readonly tokens?: number;
    /** Original items, sent back unchanged. Default: the reply's fields. */
    readonly items?: readonly Readonly<Record<string, unknown>>[];
  };
  /** Tools found by the provider's own search, defined from here on. Default: none. */
  readonly findsTools?: readonly ToolDefinition[];
  /** Whether the message is never evicted, for example because it defines tools. Default: false. */
  readonly keep?: boolean;
}

/** A tool result. */
export interface ToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: Content;
  /** Whether the message is never evicted. Default: false. */
  readonly keep?: boolean;
  /** Whether the call failed, as reported by the client. Default: detected from the text. */
  readonly failed?: boolean;
  /** Tools that the result references, defined from here on. Default: none. */
  readonly findsTools?: readonly ToolDefinition[];
}

/** A message of the operator or the user. */
export interface PlainMessage<Role extends "system" | "developer" | "user"> {
  readonly role: Role;
  readonly content: Content;
  readonly name?: string;
}

/**
 * A message of the OpenAI chat-completions wire format. Structural: other fields (signatures, provider
 * extensions) pass through unchanged. Treated as immutable.
 */
export type Message =
  | PlainMessage<"system">
  | PlainMessage<"developer">
  | PlainMessage<"user">
  | AssistantMessage
  | ToolMessage
  /** A result in the wire format that preceded tools; forwarded, never edited. */
  | {
    readonly role: "function";
    readonly name: string;
    readonly content: string | null;
  };

/** Returns a tool message with text, followed by images as `data:` URLs. */
export function toolResultMessage(
  id: string,
  text: string,
  { images = [], failed = false }: {
    readonly images?: readonly string[] | undefined;
    readonly failed?: boolean;
  } = {},
): ToolMessage {
  const parts = images.map((url): ContentPart => ({ type: "image_url", image_url: { url } }));
  const content = parts.length === 0 ? text : [{ type: "text", text } as const, ...parts];
  return { role: "tool", tool_call_id: id, content, ...(failed && { failed }) };
}

/** Returns the name of a call, and its JSON arguments or plain input. */
export function describeCall(call: ToolCall): { readonly name: string; readonly arguments: string } {
  return call.type === "custom"
    ? { name: call.custom.name, arguments: call.custom.input }
    : { name: call.function.name, arguments: call.function.arguments };
}

/**
 * Returns the text of a message's content, with parts joined by newlines. Media have no text.
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

/** Returns a message as searchable text: role, text and calls. */
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

/** Returns the first line of a message: at most 120 UTF-16 code units, no character split. */
export function firstWords(content: Content | null | undefined): string {
  const line = contentText(content).slice(0, 10 * MAX_CHARS).replaceAll(/\s+/g, " ").trim();
  return line.slice(0, MAX_CHARS).toWellFormed().replace(/\ufffd$/, "");
}

const MAX_CHARS = 120;

/** Returns a 53-bit hash of a text: two joined FNV-1a hashes. Not secure. */
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

/** Returns the cached hash, by meaning where {@linkcode setHash} set it. */
export function hashPiece(piece: Message | ToolDefinition): number {
  return (memos.get(piece) ?? memoOf(piece)).hash;
}

/** Returns the cached hash of the bytes, which a provider's cache compares. */
export function hashBytes(piece: Message | ToolDefinition): number {
  const known = memos.get(piece) ?? memoOf(piece);
  return known.bytesHash ??= hashText(JSON.stringify(piece));
}

/**
 * Sets the hash of a message by meaning, equal for other spellings. `bytesHash` default: the hash of its
 * JSON.
 */
export function setHash(message: Message, hash: number, bytesHash?: number): void {
  memos.set(message, { hash, bytesHash });
}

interface Memo {
  readonly hash: number;
  bytesHash: number | undefined;
}

const memos = new WeakMap<Message | ToolDefinition, Memo>();

function memoOf(piece: Message | ToolDefinition): Memo {
  const hash = hashText(JSON.stringify(piece));
  const known = { hash, bytesHash: hash };
  memos.set(piece, known);
  return known;
}

/** Name of the tool that calls another one, given in its arguments. */
export const CALL_TOOL_NAME = "call_tool";

/** Returns the effective call: the one inside `call_tool`, or else the call itself. */
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

/** Returns the ids of all calls. */
export function callIds(messages: readonly Message[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
}

/** Returns an unused id: the given one, unless it is empty, used, or contains a slash. */
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
  readonly at: number;
  readonly answer?: { readonly at: number; readonly message: ToolMessage };
}

/** Pairs calls like {@linkcode pairCalls}, message by message. */
export class CallPairing {
  readonly pairs: CallPair[] = [];
  /** Indexes in `pairs` of the open calls of each id, per message. */
  readonly #open = new Map<string, number[][]>();
  #length = 0;

  /** Adds a message. Returns the call that it answers. */
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

/** Returns whether two values (JSON, bytes or URLs) are deeply equal. */
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

const AGENTS_BLOCKS: readonly string[] = [
  "INSTRUCTIONS",
  "attachments",
  "context",
  "reminder",
  "reminderInstructions",
  "skill",
  "summary",
];

const USER_BLOCKS: readonly string[] = ["prompt", "task", "user_message", "user_query", "userRequest"];
const USER_ENDS = new RegExp(`</(?:${USER_BLOCKS.join("|")})>`, "g");

/** Texts before a summary that continues a conversation, and before rules. */
const SUMMARY =
  /^(?:This session is being continued from a previous conversation|Another language model started to solve this problem|The conversation history before this point was compacted)/;
const RULES_LINE = /^#+ [\w.-]+\.md instructions\b.*$/m;

const MAX_BLOCKS = 64;

/** A line that begins a block. HTML's own names have neither `_` nor `-`. */
const BLOCK = /^[ \t]*<([A-Za-z][\w-]*)(?: [^<>\n]*)?>/gm;

/**
 * Returns the text that the user wrote, without blocks that agents add, such as `<environment_context>` or
 * `<system-reminder>`, and without summaries. Empty if there is none.
 */
export function userWords(
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
  let [words, from, inspected] = ["", 0, 0];
  for (const { 0: { length }, 1: name = "", index } of text.matchAll(BLOCK)) {
    const isPersons = USER_BLOCKS.includes(name);
    if (index < from || !(isPersons || AGENTS_BLOCKS.includes(name) || /[_-]/.test(name))) continue;
    if (++inspected > MAX_BLOCKS) break;
    const end = text.indexOf(`</${name}>`, index + length);
    if (end < 0) continue;
    words += text.slice(from, index);
    from = isPersons ? index + length : end + name.length + "</>".length;
  }
  return (words + text.slice(from)).replaceAll(USER_ENDS, "").replace(RULES_LINE, "").trim();
}
