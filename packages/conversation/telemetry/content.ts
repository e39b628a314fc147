import {
  type ContentPart,
  contentText,
  describeCall,
  type Message,
  type ToolCall,
  type ToolDefinition,
} from "@tare/messages";

/** A part of a message, in the form of the conventions' JSON schemas: its type, and what else belongs to it. */
interface Part {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A message in that form. */
interface GenAiMessage {
  readonly role: string;
  readonly parts: readonly Part[];
  readonly finish_reason?: string;
}

/** What a model sees, in the form of the conventions' `gen_ai.input.messages`. */
export function inputMessages(messages: readonly Message[]): readonly GenAiMessage[] {
  return messages.map((message) => ({ role: message.role, parts: partsOf(message) }));
}

/** A model's reply, in the form of the conventions' `gen_ai.output.messages`: one message. */
export function outputMessages(
  messages: readonly Message[],
  finishReason = "",
): readonly GenAiMessage[] {
  // The conventions have a word of their own for it.
  const finish_reason = finishReason === "tool_calls" ? "tool_call" : finishReason;
  return [{ role: "assistant", parts: messages.flatMap(partsOf), finish_reason }];
}

/** The tools of a request, in the form of the conventions' `gen_ai.tool.definitions`: what they must hold. */
export function toolDefinitions(tools: readonly ToolDefinition[]): readonly Part[] {
  return tools.map(({ type, function: { name } }) => ({ type, name }));
}

function partsOf(message: Message): readonly Part[] {
  if (message.role === "tool") {
    const { tool_call_id: id, content } = message;
    return [{ type: "tool_call_response", id, response: contentText(content) }];
  }
  const { content } = message;
  const said = typeof content === "string"
    ? (content === "" ? [] : [{ type: "text", content }])
    : (content ?? []).map(partOf);
  return message.role === "assistant" ? [...said, ...(message.tool_calls ?? []).map(callPart)] : said;
}

/** Pictures, recordings and files are named, without what they hold. */
function partOf(part: ContentPart): Part {
  return part.type === "text" ? { type: "text", content: part.text } : { type: part.type };
}

function callPart(call: ToolCall): Part {
  const { name, arguments: text } = describeCall(call);
  return { type: "tool_call", id: call.id, name, arguments: parsed(text) };
}

/** What JSON text says; the text itself if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
