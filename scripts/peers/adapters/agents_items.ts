import { type AssistantMessage, contentText, type Message } from "@tare/messages";
import { parseCall } from "../calls.ts";

/** An item of a run of the OpenAI Agents SDK. */
export interface Item {
  readonly type?: string;
  readonly role?: string;
  readonly callId?: string;
  readonly content?: string | readonly { readonly type: string; readonly text?: string }[];
  readonly output?: { readonly type: string; readonly text?: string };
}

const origins = new WeakMap<Item, Message>();

/** Chat messages as the items of a run. */
export function toItems(messages: readonly Message[]): Item[] {
  return messages.flatMap((message) => {
    const items = itemsOf(message);
    for (const item of items) origins.set(item, message);
    return items;
  });
}

function itemsOf(message: Message): Item[] {
  const text = contentText(message.content);
  switch (message.role) {
    case "assistant":
      return answerItems(message, text);
    case "tool":
      return [{ type: "function_call_result", callId: message.tool_call_id, output: { type: "text", text } }];
    case "user":
      return [{ role: "user", content: text }];
    default:
      return [{ role: "system", content: text }];
  }
}

function answerItems(
  { reasoning_content: thoughts, tool_calls = [] }: AssistantMessage,
  text: string,
): Item[] {
  return [
    ...(thoughts ? [{ type: "reasoning", content: [{ type: "input_text", text: thoughts }] }] : []),
    ...(text === ""
      ? []
      : [{ type: "message", role: "assistant", content: [{ type: "output_text", text }] }]),
    ...tool_calls.map((call) => {
      const { id, name } = parseCall(call);
      const said = call.type === "custom" ? call.custom.input : call.function.arguments;
      return { type: "function_call", callId: id, name, arguments: said };
    }),
  ];
}

/** The chat messages again. */
export function fromItems(items: readonly Item[]): Message[] {
  const messages: Message[] = [];
  for (const item of items) {
    const message = origins.get(item) ?? newMessage(item);
    if (messages.at(-1) !== message) messages.push(message);
  }
  return messages;
}

function newMessage({ role, callId = "", content = "", output }: Item): Message {
  if (output) return { role: "tool", tool_call_id: callId, content: output.text ?? "" };
  const text = typeof content === "string" ? content : content.map(({ text = "" }) => text).join("");
  return { role: role === "assistant" || role === "system" ? role : "user", content: text };
}
