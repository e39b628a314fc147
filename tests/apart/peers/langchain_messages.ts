import {
  AIMessage,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { contentText, type Message } from "@tare/messages";
import { formatCall, parseCall } from "./calls.ts";

export function toLangChain(messages: readonly Message[], newId: () => string): BaseMessage[] {
  return messages.map((message) => {
    const fields = {
      id: newId(),
      content: contentText(message.content),
      additional_kwargs: { origin: message },
    };
    switch (message.role) {
      case "user":
        return new HumanMessage(fields);
      case "assistant": {
        const calls = (message.tool_calls ?? []).map(parseCall);
        return new AIMessage({
          ...fields,
          tool_calls: calls.map((call) => ({ ...call, type: "tool_call" as const })),
        });
      }
      case "tool":
        return new ToolMessage({ ...fields, tool_call_id: message.tool_call_id });
      default:
        return new SystemMessage(fields);
    }
  });
}

const made = new WeakMap<BaseMessage, Message>();

export function fromLangChain(messages: readonly BaseMessage[]): Message[] {
  return messages.map((message) => {
    const origin = message.additional_kwargs.origin as Message | undefined;
    if (origin && isUnchanged(message, origin)) return origin;
    let known = made.get(message);
    if (!known) made.set(message, known = fromFields(message, origin));
    return known;
  });
}

function isUnchanged(message: BaseMessage, origin: Message): boolean {
  if (message.content !== contentText(origin.content)) return false;
  const calls = AIMessage.isInstance(message) ? message.tool_calls ?? [] : [];
  const toolCalls = origin.role === "assistant" ? origin.tool_calls ?? [] : [];
  return calls.length === toolCalls.length &&
    calls.every(({ args }, at) => parseCall(toolCalls[at]!).args === args);
}

function fromFields(message: BaseMessage, origin: Message | undefined): Message {
  const content = message.text;
  if (ToolMessage.isInstance(message)) return { role: "tool", tool_call_id: message.tool_call_id, content };
  if (SystemMessage.isInstance(message)) return { role: "system", content };
  if (!AIMessage.isInstance(message)) return { role: "user", content };
  const calls = (message.tool_calls ?? []).map(({ id = "", name, args }) => formatCall({ id, name, args }));
  return {
    ...(origin?.role === "assistant" && origin),
    role: "assistant",
    content: content === "" ? null : content,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}
