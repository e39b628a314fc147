import type { AgentMessage } from "@earendil-works/pi-agent-core";
import type { Message as PiMessage } from "@earendil-works/pi-ai";
import { contentText, type Message } from "@tare/messages";
import { formatCall, parseCall } from "./calls.ts";

const NOTHING = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };
const USAGE = { ...NOTHING, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };

const origins = new WeakMap<object, Message>();
const made = new WeakMap<object, Message>();

/** Chat messages as pi holds them. An operator's message inside the conversation is one of the user. */
export function toPi(messages: readonly Message[]): AgentMessage[] {
  const names = new Map<string, string>();
  return messages.map((message): AgentMessage => {
    for (const call of message.role === "assistant" ? message.tool_calls ?? [] : []) {
      names.set(call.id, parseCall(call).name);
    }
    const theirs = toPiMessage(message, names);
    origins.set(theirs, message);
    return theirs;
  });
}

function toPiMessage(message: Message, names: ReadonlyMap<string, string>): PiMessage {
  const text = contentText(message.content);
  const texts = text === "" ? [] : [{ type: "text" as const, text }];
  switch (message.role) {
    case "assistant": {
      const calls = (message.tool_calls ?? []).map(parseCall);
      return {
        role: "assistant",
        content: [
          ...texts,
          ...calls.map(({ id, name, args }) => ({ type: "toolCall" as const, id, name, arguments: args })),
        ],
        api: "none",
        provider: "none",
        model: "none",
        usage: USAGE,
        stopReason: calls.length > 0 ? "toolUse" : "stop",
        timestamp: 0,
      };
    }
    case "tool": {
      const { tool_call_id: id } = message;
      const toolName = names.get(id) ?? "";
      return { role: "toolResult", toolCallId: id, toolName, content: texts, isError: false, timestamp: 0 };
    }
    default:
      return { role: "user", content: text, timestamp: 0 };
  }
}

/** The chat messages again. */
export function fromPi(messages: readonly PiMessage[]): Message[] {
  return messages.map((message) => {
    let ours = origins.get(message) ?? made.get(message);
    if (!ours) made.set(message, ours = fromFields(message));
    return ours;
  });
}

function fromFields(message: PiMessage): Message {
  const content = typeof message.content === "string"
    ? message.content
    : message.content.map((part) => part.type === "text" ? part.text : "").join("");
  if (message.role === "user") return { role: "user", content };
  if (message.role === "toolResult") return { role: "tool", tool_call_id: message.toolCallId, content };
  const calls = message.content.flatMap((part) =>
    part.type === "toolCall" ? [formatCall({ id: part.id, name: part.name, args: part.arguments })] : []
  );
  return {
    role: "assistant",
    content: content === "" ? null : content,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}
