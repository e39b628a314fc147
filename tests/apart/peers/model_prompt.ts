import { contentText, type Message } from "@tare/messages";
import type { ModelMessage } from "ai";
import { parseCall } from "./calls.ts";

type Part = Exclude<ModelMessage["content"], string>[number];

const origins = new WeakMap<Part | ModelMessage, Message>();

/** Messages with parts removed by a peer, by the original and the remaining parts. */
const shortened = new WeakMap<Message, Map<string, Message>>();

/** Converts chat messages to the AI SDK's. The results of one step are one message. */
export function toModelPrompt(messages: readonly Message[]): ModelMessage[] {
  const prompt: ModelMessage[] = [];
  const names = new Map<string, string>();
  for (const message of messages) {
    const last = prompt.at(-1);
    if (message.role === "tool") {
      const part: Part = {
        type: "tool-result",
        toolCallId: message.tool_call_id,
        toolName: names.get(message.tool_call_id) ?? "",
        output: { type: "text", value: contentText(message.content) },
      };
      origins.set(part, message);
      if (last?.role === "tool") last.content.push(part);
      else prompt.push({ role: "tool", content: [part] });
      continue;
    }
    for (const call of message.role === "assistant" ? message.tool_calls ?? [] : []) {
      const { id, name } = parseCall(call);
      names.set(id, name);
    }
    prompt.push(toModelMessage(message));
  }
  return prompt;
}

function toModelMessage(message: Message): ModelMessage {
  if (message.role === "assistant") {
    const content = assistantParts(message);
    for (const part of content) origins.set(part, message);
    return { role: "assistant", content: content as Extract<Part, { type: "text" }>[] };
  }
  const text = contentText(message.content);
  if (message.role === "user") {
    const part: Part = { type: "text", text };
    origins.set(part, message);
    return { role: "user", content: [part] };
  }
  const system: ModelMessage = { role: "system", content: text };
  origins.set(system, message);
  return system;
}

function assistantParts(message: Message): Part[] {
  if (message.role !== "assistant") return [];
  const text = contentText(message.content);
  return [
    ...(message.reasoning_content ? [{ type: "reasoning" as const, text: message.reasoning_content }] : []),
    ...(text === "" ? [] : [{ type: "text" as const, text }]),
    ...(message.tool_calls ?? []).map((call): Part => {
      const { id, name, args } = parseCall(call);
      return { type: "tool-call", toolCallId: id, toolName: name, input: args };
    }),
  ];
}

/**
 * Returns the chat messages of a prompt. A shortened message retains the fields that the prompt doesn't
 * have.
 */
export function fromModelPrompt(prompt: readonly ModelMessage[]): Message[] {
  return prompt.flatMap((message): Message[] => {
    if (typeof message.content === "string") return [originOf(message)];
    const parts: readonly Part[] = message.content;
    return message.role === "assistant" ? [restOf(parts)] : parts.map(originOf);
  });
}

function originOf(part: Part | ModelMessage): Message {
  const origin = origins.get(part);
  if (!origin) throw new TypeError("Cannot read a part that no message was converted to");
  return origin;
}

function restOf(parts: readonly Part[]): Message {
  const origin = originOf(parts[0]!);
  if (origin.role !== "assistant" || parts.length === assistantParts(origin).length) return origin;
  const key = parts.map((part) => part.type === "tool-call" ? part.toolCallId : part.type).join("\n");
  const rests = shortened.get(origin) ?? new Map<string, Message>();
  shortened.set(origin, rests);
  const { tool_calls: calls = [], reasoning_content: reasoning, content, ...others } = origin;
  const has = (type: Part["type"], id?: string) =>
    parts.some((part) =>
      part.type === type && (id === undefined || "toolCallId" in part && part.toolCallId === id)
    );
  const left = calls.filter(({ id }) => has("tool-call", id));
  const rest = rests.get(key) ?? {
    ...others,
    content: has("text") ? content : null,
    ...(has("reasoning") && { reasoning_content: reasoning }),
    ...(left.length > 0 && { tool_calls: left }),
  } as Message;
  rests.set(key, rest);
  return rest;
}
