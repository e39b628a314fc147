/** Text of a message. */
export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A picture, by URL or as a `data:` URL. */
export interface ImagePart {
  readonly type: "image_url";
  readonly image_url: { readonly url: string; readonly detail?: "auto" | "low" | "high" | (string & {}) };
}

/** A recording, as base64. */
export interface AudioPart {
  readonly type: "input_audio";
  readonly input_audio: { readonly data: string; readonly format: string };
}

/** A file, by id of an upload or as base64. */
export interface FilePart {
  readonly type: "file";
  readonly file: { readonly file_data?: string; readonly file_id?: string; readonly filename?: string };
}

/** What the model said instead of an answer it would not give. */
export interface RefusalPart {
  readonly type: "refusal";
  readonly refusal: string;
}

/** One part of a message's content. */
export type ContentPart = TextPart | ImagePart | AudioPart | FilePart | RefusalPart;

/** Content of a message: text, or parts in order. */
export type Content = string | readonly ContentPart[];

/** A function call that the model asks for. `arguments` is the JSON text as the model wrote it, valid or not. */
export interface FunctionToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A free-text call that the model asks for (OpenAI's custom tools). */
export interface CustomToolCall {
  readonly id: string;
  readonly type: "custom";
  readonly custom: { readonly name: string; readonly input: string };
}

/** A call in an assistant message. */
export type ToolCall = FunctionToolCall | CustomToolCall;

/** Instructions of the operator, for models that call them `system`. */
export interface SystemMessage {
  readonly role: "system";
  readonly content: Content;
  readonly name?: string;
}

/** Instructions of the operator, for models that call them `developer`. */
export interface DeveloperMessage {
  readonly role: "developer";
  readonly content: Content;
  readonly name?: string;
}

/** What the user said. */
export interface UserMessage {
  readonly role: "user";
  readonly content: Content;
  readonly name?: string;
}

/**
 * What the model said and which tools it called. `reasoning_content` is how DeepSeek, vLLM and others pass the
 * model's reasoning; it is kept and sent back as it came.
 */
export interface AssistantMessage {
  readonly role: "assistant";
  readonly content?: Content | null;
  readonly refusal?: string | null;
  readonly name?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly reasoning_content?: string | null;
}

/** The result of one tool call. */
export interface ToolMessage {
  readonly role: "tool";
  readonly tool_call_id: string;
  readonly content: Content;
}

/** The result of a call in the wire format that came before tools. Passed through, never edited. */
export interface FunctionMessage {
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
