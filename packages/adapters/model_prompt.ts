/**
 * The prompt as the AI SDK's models take it, and with them Mastra's: read as chat messages, and written again after what
 * was planned.
 *
 * @module
 */
import {
  type AssistantMessage,
  type ContentPart,
  contentText,
  type Message,
  type ToolCall,
} from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import type { AdaptedSession, AdaptedView } from "./adapted_session.ts";

/** A part of a message, as far as it is read here. */
export interface PromptPart {
  readonly type: string;
}

/** A message of a prompt as the AI SDK hands it to a model. */
export interface PromptMessage {
  readonly role: string;
  readonly content: string | readonly PromptPart[];
}

/** The recall tool as frameworks take it that know the Standard JSON Schema specification. Its name must be `recall`. */
export interface RecallTool {
  readonly description: string;
  /** JSON Schema of the arguments, by that specification. */
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
  readonly execute: (input: unknown) => Promise<string>;
}

/** The recall tool of a session. */
export function standardRecallTool(adapted: AdaptedSession): RecallTool {
  const { description, parameters } = RECALL_TOOL.function;
  const schema = () => ({ ...parameters });
  return {
    description,
    inputSchema: {
      "~standard": {
        version: 1,
        vendor: "tare",
        // What is wrong with the arguments the model is told as the tool's answer.
        validate: (value) => ({ value }),
        jsonSchema: { input: schema, output: schema },
      },
    },
    execute: (input) => adapted.recall(input),
  };
}

interface TextPart extends PromptPart {
  readonly text: string;
}

interface FilePart extends PromptPart {
  readonly mediaType: string;
  /** The file itself, or in newer prompts an object that holds it. */
  readonly data: unknown;
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

/** A chat message, and what of the prompt it was read from: a message, or a part of it. */
interface Piece {
  readonly message: Message;
  /** Position in the prompt. */
  readonly at: number;
  readonly part?: ResultPart;
}

/**
 * A prompt as chat messages.
 *
 * @throws {TypeError} if a message has a role that a prompt doesn't have.
 */
export function readModelPrompt(prompt: readonly PromptMessage[]): Piece[] {
  return prompt.flatMap(readMessage);
}

function readMessage({ role, content }: PromptMessage, at: number): Piece[] {
  const parts = typeof content === "string" ? [] : content;
  switch (role) {
    case "system":
      return [{ at, message: { role, content: content as string } }];
    case "user":
      return [{ at, message: { role, content: parts.map(readPart) } }];
    case "assistant":
      return [{ at, message: readAnswer(parts) }];
    case "tool": {
      const results = parts.filter((part): part is ResultPart => part.type === "tool-result");
      if (results.length > 0) return results.map((part) => ({ at, part, message: readResult(part) }));
      // Nothing but what people allowed, which stays where it is.
      return [{ at, message: { role: "function", name: "approval", content: JSON.stringify(parts) } }];
    }
    default:
      throw new TypeError(
        `Cannot read message ${at} of the prompt: its role is ${role}; it must be system, user, assistant or tool`,
      );
  }
}

/** What is neither text nor file stands as the JSON that it is, so that it counts. */
function readPart(part: PromptPart): ContentPart {
  if (part.type === "text") return { type: "text", text: (part as TextPart).text };
  if (part.type !== "file") return { type: "text", text: JSON.stringify(part) };
  const { mediaType, data } = part as FilePart;
  const held = data as { readonly data?: unknown; readonly url?: unknown };
  const file = held.data ?? held.url ?? data;
  const place = file instanceof Uint8Array
    ? `${file.length} bytes`
    : typeof file === "string" || file instanceof URL
    ? `${file}`
    : JSON.stringify(file);
  return mediaType.startsWith("image")
    ? { type: "image_url", image_url: { url: place } }
    : { type: "file", file: { file_data: place } };
}

function readAnswer(parts: readonly PromptPart[]): AssistantMessage {
  const calls = parts.filter((part): part is CallPart => part.type === "tool-call");
  const said = parts.filter(({ type }) => type !== "tool-call" && type !== "reasoning").map(readPart);
  const thoughts = parts.filter(({ type }) => type === "reasoning").map((part) => (part as TextPart).text);
  return {
    role: "assistant",
    content: said.length === 0 ? null : said,
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
  const { type, value, reason = "Denied." } = output;
  const content = type === "content"
    ? (value as PromptPart[]).map(readPart)
    : type === "execution-denied"
    ? reason
    : typeof value === "string"
    ? value
    : JSON.stringify(value);
  return {
    role: "tool",
    tool_call_id: toolCallId,
    content,
    ...(type.startsWith("error") && { failed: true }),
  };
}

/** The prompt after what was planned. What the plan leaves as it is stays the very object that the SDK made. */
export function writePrompt(
  prompt: readonly PromptMessage[],
  pieces: readonly Piece[],
  { view, history }: AdaptedView,
): readonly PromptMessage[] {
  const results = new Map<ResultPart, PromptPart>();
  const written: PromptMessage[] = [];
  let open: { readonly at: number } | undefined;
  view.messages.forEach((message, row) => {
    const place = view.places[row]!;
    const piece = pieces[place];
    if (!piece) {
      const line: TextPart = { type: "text", text: contentText(message.content) };
      written.push({ role: message.role, content: [line] });
      return;
    }
    const { at, part } = piece;
    const isAsItWas = message === history[place];
    if (part) results.set(part, isAsItWas ? part : { ...part, output: textOutput(message) } as PromptPart);
    if (open?.at === at) return;
    open = { at };
    const origin = prompt[at]!;
    written.push(part || isAsItWas ? origin : { ...origin, content: shortened(origin, message) });
  });
  return written.map((message) => message.role === "tool" ? withResults(message, results) : message);
}

function textOutput({ content }: Message) {
  return { type: "text", value: contentText(content) };
}

/** What the user said, with the texts that the plan has shortened. */
function shortened({ content }: PromptMessage, message: Message): PromptMessage["content"] {
  const shown = message.content;
  if (typeof content === "string" || typeof shown === "string" || !shown) return contentText(shown);
  return content.map((part, at) =>
    part.type === "text" ? { ...part, text: (shown[at] as TextPart).text } : part
  );
}

/** A message of results, each as the plan shows it; those that the plan leaves out are not in it. */
function withResults(message: PromptMessage, results: ReadonlyMap<ResultPart, PromptPart>): PromptMessage {
  const parts = message.content as readonly PromptPart[];
  const shown = parts.flatMap((part) =>
    part.type === "tool-result" ? results.get(part as ResultPart) ?? [] : part
  );
  return shown.every((part, at) => part === parts[at]) && shown.length === parts.length
    ? message
    : { ...message, content: shown };
}
