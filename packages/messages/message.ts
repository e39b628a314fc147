/** Text of a message. */
export interface TextPart {
  /** Always `text`. */
  readonly type: "text";
  readonly text: string;
}

/** A picture, by URL or as a `data:` URL. */
export interface ImagePart {
  /** Always `image_url`. */
  readonly type: "image_url";
  /** Where the picture is, and how closely the model shall look at it. */
  readonly image_url: { readonly url: string; readonly detail?: string };
}

/** A recording, as base64. */
export interface AudioPart {
  /** Always `input_audio`. */
  readonly type: "input_audio";
  /** The recording as base64, and its format (`wav`, `mp3`). */
  readonly input_audio: { readonly data: string; readonly format: string };
}

/** A file, by id of an upload or as base64. */
export interface FilePart {
  /** Always `file`. */
  readonly type: "file";
  /** The id of an upload, or name and base64 data. */
  readonly file: { readonly file_data?: string; readonly file_id?: string; readonly filename?: string };
}

/** What the model said instead of an answer it would not give. */
export interface RefusalPart {
  /** Always `refusal`. */
  readonly type: "refusal";
  /** What the model said instead. */
  readonly refusal: string;
}

/** One part of a message's content. */
export type ContentPart = TextPart | ImagePart | AudioPart | FilePart | RefusalPart;

/** Content of a message: text, or parts in order. */
export type Content = string | readonly ContentPart[];

/** A function call that the model asks for. `arguments` is the JSON text as the model wrote it, valid or not. */
export interface FunctionToolCall {
  /** Names the call; its result carries the same id. */
  readonly id: string;
  /** Always `function`. */
  readonly type: "function";
  /** Which function, with which arguments. */
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A free-text call that the model asks for (OpenAI's custom tools). */
export interface CustomToolCall {
  /** Names the call; its result carries the same id. */
  readonly id: string;
  /** Always `custom`. */
  readonly type: "custom";
  /** Which tool, with which input. */
  readonly custom: { readonly name: string; readonly input: string };
}

/** A call in an assistant message. */
export type ToolCall = FunctionToolCall | CustomToolCall;

/** Instructions of the operator, for models that call them `system`. */
export interface SystemMessage {
  /** Always `system`. */
  readonly role: "system";
  readonly content: Content;
  /** Tells apart several who write under one role. */
  readonly name?: string;
}

/** Instructions of the operator, for models that call them `developer`. */
export interface DeveloperMessage {
  /** Always `developer`. */
  readonly role: "developer";
  readonly content: Content;
  /** Tells apart several who write under one role. */
  readonly name?: string;
}

/** What the user said. */
export interface UserMessage {
  /** Always `user`. */
  readonly role: "user";
  readonly content: Content;
  /** Tells apart several who write under one role. */
  readonly name?: string;
}

/**
 * What the model said and which tools it called. `reasoning_content` is how DeepSeek, vLLM and others pass the
 * model's reasoning; it is kept and sent back as it came.
 */
export interface AssistantMessage {
  /** Always `assistant`. */
  readonly role: "assistant";
  /** What was said; often empty or null beside calls. */
  readonly content?: Content | null;
  /** What the model said instead of an answer. */
  readonly refusal?: string | null;
  /** Tells apart several who write under one role. */
  readonly name?: string;
  /** The calls, in the order of the reply. */
  readonly tool_calls?: readonly ToolCall[];
  /** The reasoning, where the provider shows it. */
  readonly reasoning_content?: string | null;
}

/** The result of one tool call. */
export interface ToolMessage {
  /** Always `tool`. */
  readonly role: "tool";
  /** Id of the call that this answers. */
  readonly tool_call_id: string;
  readonly content: Content;
  /** Whether it has to stay where it stands, such as what makes tools known. Default: it may leave. */
  readonly keep?: boolean;
}

/** The result of a call in the wire format that came before tools. Passed through, never edited. */
export interface FunctionMessage {
  /** Always `function`. */
  readonly role: "function";
  readonly name: string;
  readonly content: string | null;
}

/**
 * A message of the OpenAI chat-completions wire format, as far as Tare reads it. The type is structural: fields
 * that it doesn't name (signatures, provider extensions) are legal on any message and pass through every
 * function of Tare untouched. Messages are treated as immutable.
 */
export type Message =
  | SystemMessage
  | DeveloperMessage
  | UserMessage
  | AssistantMessage
  | ToolMessage
  | FunctionMessage;

/**
 * The text of a message's content: the string itself, or its text and refusal parts joined by newlines. Pictures,
 * recordings and files have no text.
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
