/**
 * Prompts of the AI SDK's models, which Mastra uses too: read as chat messages, and written from a view.
 *
 * @module
 */
import {
  type AssistantMessage,
  type Content,
  contentText,
  type Message,
  partsOfBlock,
  type ToolCall,
} from "@tare/messages";
import { checkGiven, sameData } from "@tare/messages/internal";
import type { SessionView } from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import type { setBreakpoints } from "./cache_breakpoints.ts";
import { cachesMarked } from "./options.ts";
import {
  type AdaptedConversations,
  type Piece,
  type Reader,
  resultMessage,
} from "./adapted_conversations.ts";

/** A message of an AI SDK prompt. */
export interface PromptMessage {
  readonly role: string;
  readonly content: string | readonly { readonly type: string; readonly providerOptions?: unknown }[];
  readonly providerOptions?: unknown;
}

/** A part of a message. */
export type PromptPart = Exclude<PromptMessage["content"], string>[number];

/** The recall tool for frameworks with Standard JSON Schema. Its name must be `recall`. */
export interface FrameworkRecallTool {
  readonly description: string;
  readonly inputSchema: {
    readonly "~standard": {
      readonly version: 1;
      readonly vendor: string;
      readonly validate: (value: unknown) => { readonly value: unknown };
      readonly jsonSchema: {
        readonly input: () => Record<string, unknown>;
        readonly output: () => Record<string, unknown>;
      };
    };
  };
  /** Runs a call; its id identifies the conversation. */
  readonly execute: (input: unknown, call?: { readonly toolCallId?: string }) => Promise<string>;
}

/** Returns the recall tool of conversations. */
export function standardRecallTool<Given, Call>(
  conversations: AdaptedConversations<Given, Call>,
): FrameworkRecallTool {
  const { description, parameters } = RECALL_TOOL.function;
  const schema = () => ({ ...parameters });
  return {
    description,
    inputSchema: {
      "~standard": {
        version: 1,
        vendor: "tare",
        // Invalid arguments are reported to the model as the tool's result.
        validate: (value) => ({ value }),
        jsonSchema: { input: schema, output: schema },
      },
    },
    execute: (input, call) => conversations.recall(input, call?.toolCallId),
  };
}

interface TextPart extends PromptPart {
  readonly text: string;
}

interface CallPart extends PromptPart {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
}

interface ResultPart extends PromptPart {
  readonly toolCallId: string;
  readonly output: { readonly type: string; readonly value?: unknown; readonly reason?: string };
}

/** Reader of prompts. Provider options don't distinguish messages. */
export const PROMPT_READER: Reader<PromptMessage> = {
  same: (one, other) => one === other || (one.role === other.role && sameParts(one.content, other.content)),
  read(prompt, from) {
    const pieces: Piece[] = [];
    for (let at = from; at < prompt.length; at++) pieces.push(...readMessage(prompt[at]!, at));
    return pieces;
  },
};

function sameParts(one: PromptMessage["content"], other: PromptMessage["content"]): boolean {
  if (typeof one === "string" || typeof other === "string") return one === other;
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) if (!samePart(one[at]!, other[at]!)) return false;
  return true;
}

function samePart(one: PromptPart, other: PromptPart): boolean {
  if (one === other) return true;
  if (one.type !== other.type) return false;
  const a = one as TextPart & CallPart & ResultPart;
  const b = other as typeof a;
  switch (one.type) {
    case "text":
    case "reasoning":
      return a.text === b.text;
    case "tool-call":
      return a.toolCallId === b.toolCallId && a.toolName === b.toolName && sameData(a.input, b.input);
    case "tool-result":
      return a.toolCallId === b.toolCallId && sameData(a.output, b.output);
    default:
      return sameData(one, other);
  }
}

/** Returns a message's pieces. @throws {TypeError} if its role is unknown. */
function readMessage({ role, content }: PromptMessage, at: number): Piece[] {
  const parts = typeof content === "string" ? [{ type: "text", text: content } as TextPart] : content;
  const place = { at, end: at + 1 };
  switch (role) {
    case "system":
      return [{ ...place, message: { role, content: content as string } }];
    case "user":
      return [{ ...place, message: { role, content: parts.flatMap(partsOfBlock) } }];
    case "assistant":
      return [{ ...place, message: readAnswer(parts) }];
    case "tool": {
      const results = parts.flatMap((given, part) =>
        given.type === "tool-result" ? { ...place, part, message: readResult(given as ResultPart) } : []
      );
      if (results.length > 0) return results;
      return [{ ...place, message: { role: "function", name: "approval", content: JSON.stringify(parts) } }];
    }
    default:
      throw new TypeError(
        `Cannot read message ${at} of the prompt: its role is ${role}. Use system, user, assistant or tool.`,
      );
  }
}

function readAnswer(parts: readonly PromptPart[]): AssistantMessage {
  const calls = parts.filter((part): part is CallPart => part.type === "tool-call");
  const content = parts.filter(({ type }) => type !== "tool-call" && type !== "reasoning").flatMap(
    partsOfBlock,
  );
  const thoughts = parts.filter(({ type }) => type === "reasoning").map((part) => (part as TextPart).text);
  return {
    role: "assistant",
    content: content.length === 0 ? null : content,
    ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
    ...(calls.length > 0 && { tool_calls: calls.map(readCall) }),
  };
}

function readCall({ toolCallId, toolName, input }: CallPart): ToolCall {
  return {
    id: toolCallId,
    type: "function",
    function: { name: toolName, arguments: JSON.stringify(input ?? {}) },
  };
}

function readResult({ toolCallId, output }: ResultPart): Message {
  return resultMessage(toolCallId, readOutput(output), output?.type.startsWith("error"));
}

/** Returns a result's content; an invalid one unchanged, for the error that identifies its message. */
function readOutput(output: ResultPart["output"]): Content {
  const { type, value, reason = "Denied." } = Object(output) as ResultPart["output"];
  switch (type) {
    case "text":
    case "error-text":
      return value as string;
    case "json":
    case "error-json":
      return JSON.stringify(value);
    case "execution-denied":
      return reason;
    case "content":
      return Array.isArray(value) ? value.flatMap(partsOfBlock) : value as string;
    default:
      return output && partsOfBlock(output);
  }
}

/** Returns the prompt of a view. Unchanged messages are the SDK's objects. */
export function writePrompt(
  prompt: readonly PromptMessage[],
  { view: { messages, places }, pieces }: {
    readonly view: Pick<SessionView, "messages" | "places">;
    readonly pieces: readonly Piece[];
  },
): {
  readonly prompt: readonly PromptMessage[];
  /** For each message of the prompt, the number of view messages up to its end. */
  readonly ends: readonly number[];
} {
  const written: PromptMessage[] = [];
  const ends: number[] = [];
  for (let row = 0; row < messages.length; row++) {
    if (written.length > ends.length) ends.push(row);
    const message = messages[row]!;
    const piece = pieces[places[row]!];
    if (!piece) {
      const line: TextPart = { type: "text", text: contentText(message.content) };
      written.push({ role: message.role, content: [line] });
      continue;
    }
    const { at, part } = piece;
    const origin = prompt[at]!;
    if (part === undefined) {
      written.push(message === piece.message ? origin : { ...origin, content: shortened(origin, message) });
      continue;
    }
    const parts = origin.content as readonly PromptPart[];
    // Nearly all messages contain one result, and there may be thousands.
    if (parts.length === 1) {
      written.push(message === piece.message ? origin : oneResult(origin, message));
      continue;
    }
    const visible = new Map<number, PromptPart>();
    for (let next: Piece | undefined = piece; next?.part !== undefined && next.at === at;) {
      const given = parts[next.part]!;
      const original = messages[row]!;
      const isAsItWas = original === next.message;
      visible.set(next.part, isAsItWas ? given : withOutput(given, original));
      next = pieces[places[row + 1]!];
      if (next?.at === at) row++;
    }
    written.push(withResults(origin, visible));
  }
  if (written.length > ends.length) ends.push(messages.length);
  return { prompt: written, ends };
}

/** Adds cache breakpoints if the provider needs them; only then the module is loaded. */
export async function withBreakpoints(
  prompt: readonly PromptMessage[],
  settings: Parameters<typeof setBreakpoints>[1],
): Promise<readonly PromptMessage[]> {
  if (!cachesMarked(settings.profile)) return prompt;
  return (await import("./cache_breakpoints.ts")).setBreakpoints(prompt, settings);
}

/** Written messages of changed results. */
const knownResults = new WeakMap<Message, PromptMessage>();

/** Returns a message of one changed result: the same object each time, unless provider options may have changed. */
function oneResult(origin: PromptMessage, message: Message): PromptMessage {
  const part = origin.content[0] as PromptPart;
  const isBare = hasNoOptions(origin) && hasNoOptions(part);
  const known = isBare ? knownResults.get(message) : undefined;
  if (known) return known;
  const written = { ...origin, content: [withOutput(part, message)] };
  if (isBare) knownResults.set(message, written);
  return written;
}

function hasNoOptions(one: { readonly providerOptions?: unknown }): boolean {
  return one.providerOptions === undefined;
}

function withOutput(part: PromptPart, { content }: Message): PromptPart {
  const output: Pick<ResultPart, "output"> = { output: { type: "text", value: contentText(content) } };
  return { ...part, ...output };
}

function shortened({ content }: PromptMessage, message: Message): PromptMessage["content"] {
  const visible = message.content;
  if (typeof content === "string" || typeof visible === "string" || !visible) return contentText(visible);
  let at = 0;
  return content.map((part) => {
    const from = at;
    at += partsOfBlock(part).length;
    return part.type === "text" ? { ...part, text: (visible[from] as TextPart).text } : part;
  });
}

/** Omitted results are removed. */
function withResults(message: PromptMessage, results: ReadonlyMap<number, PromptPart>): PromptMessage {
  const parts = message.content as readonly PromptPart[];
  const visible = parts.flatMap((part, at) => part.type === "tool-result" ? results.get(at) ?? [] : part);
  return visible.every((part, at) => part === parts[at]) && visible.length === parts.length
    ? message
    : { ...message, content: visible };
}

const knownMessages = new WeakMap<
  PromptMessage,
  { readonly source: PromptMessage; readonly pieces: readonly Piece[] }
>();

/**
 * Converts messages of the AI SDK to chat messages, for your own `plannerSession()`, such as in `prepareStep`. The same SDK
 * messages return the same objects at each call, which a session relies on.
 *
 * @throws {TypeError} if a message has an unknown role.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStrictEquals } from "@std/assert";
 * import { fromAiSdk, toAiSdk } from "@tare/adapters/ai-sdk";
 *
 * const given = [{ role: "user", content: "Why do nightly builds fail?" }];
 * const messages = fromAiSdk(given);
 * assertEquals(messages, [{ role: "user", content: [{ type: "text", text: "Why do nightly builds fail?" }] }]);
 * assertStrictEquals(toAiSdk(given, { messages, places: [0] })[0], given[0]);
 * ```
 */
export function fromAiSdk(given: readonly PromptMessage[]): Message[] {
  checkGiven("fromAiSdk()", { given }, { given: "array" });
  return piecesOf(given).map(({ message }) => message);
}

/**
 * Returns the SDK messages of a session's view of {@linkcode fromAiSdk}. Unchanged ones are the same objects.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { toAiSdk } from "@tare/adapters/ai-sdk";
 *
 * const given = [{ role: "user", content: "First." }, { role: "user", content: "Second." }];
 * const messages = [{ role: "user", content: "Second." }] as const;
 * assertEquals(toAiSdk(given, { messages, places: [1] }), [{ role: "user", content: "Second." }]);
 * ```
 *
 * @throws {TypeError} if a message has an unknown role.
 */
export function toAiSdk<Given extends PromptMessage>(
  given: readonly Given[],
  view: Pick<SessionView, "messages" | "places">,
): Given[] {
  checkGiven("toAiSdk()", { given, view }, {
    given: "array",
    view: { messages: "messages", places: "array" },
  });
  return [...writePrompt(given, { view, pieces: piecesOf(given) }).prompt] as Given[];
}

function piecesOf(given: readonly PromptMessage[]): Piece[] {
  return given.flatMap((one, at) => {
    const known = knownMessages.get(one);
    if (known && PROMPT_READER.same(known.source, one)) {
      return known.pieces.map((piece) => ({ ...piece, at, end: at + 1 }));
    }
    const pieces = readMessage(one, at);
    knownMessages.set(one, { source: copyOf(one), pieces });
    return pieces;
  });
}

function copyOf(message: PromptMessage): PromptMessage {
  const { content } = message;
  return {
    ...message,
    content: typeof content === "string" ? content : content.map((part) => ({ ...part })),
  };
}
