import { type AssistantMessage, contentText, type Message, type ToolCall } from "@tare/messages";
import type { ModelMessage } from "ai";
import { formatCall, parseCall } from "./calls.ts";

type Part = Exclude<ModelMessage["content"], string>[number];

/** The message that a part, or a message without parts, was made of. */
const origins = new WeakMap<Part | ModelMessage, Message>();

/** Messages of which a peer took some parts away, by the message and the positions of the parts that are left. */
const shortened = new WeakMap<Message, Map<string, Message>>();

/**
 * Chat messages as the AI SDK and, one level below, its providers hold them; Mastra uses the same. The results of one
 * step are one message.
 */
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

/** The chat messages again. What is left of a message keeps the fields of which the prompt knows nothing. */
export function fromModelPrompt(prompt: readonly ModelMessage[]): Message[] {
  return prompt.flatMap((message): Message[] => {
    if (typeof message.content === "string") {
      return [origins.get(message) ?? plain(message.role, message.content)];
    }
    if (message.role === "tool") return message.content.flatMap(fromResult);
    const parts: readonly Part[] = message.content;
    const origin = parts[0] && origins.get(parts[0]);
    if (origin && origin.role !== "assistant") return [origin];
    if (message.role === "assistant") return [origin ? restOf(origin, parts) : fromParts(parts)];
    return [plain(message.role, parts.map(textOf).join(""))];
  });
}

function fromResult(part: Part): Message[] {
  const origin = origins.get(part);
  if (origin) return [origin];
  if (part.type !== "tool-result") return [];
  const { output } = part;
  const content = output.type === "text" ? output.value : JSON.stringify(output);
  return [{ role: "tool", tool_call_id: part.toolCallId, content }];
}

function restOf(origin: AssistantMessage, parts: readonly Part[]): Message {
  const whole = assistantParts(origin);
  if (parts.length === whole.length) return origin;
  const key = parts.map((part) => part.type === "tool-call" ? part.toolCallId : part.type).join("\n");
  const rests = shortened.get(origin) ?? new Map<string, Message>();
  shortened.set(origin, rests);
  let rest = rests.get(key);
  if (!rest) {
    const { tool_calls: _calls, reasoning_content: _reasoning, ...others } = origin;
    rest = { ...others, ...fromParts(parts) };
    rests.set(key, rest);
  }
  return rest;
}

function fromParts(parts: readonly Part[]): AssistantMessage {
  const text = parts.map(textOf).join("");
  const reasoning = parts.map((part) => part.type === "reasoning" ? part.text : "").join("");
  const calls = parts.flatMap((part): ToolCall[] =>
    part.type === "tool-call"
      ? [
        formatCall({ id: part.toolCallId, name: part.toolName, args: part.input as Record<string, unknown> }),
      ]
      : []
  );
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function plain(role: ModelMessage["role"], content: string): Message {
  if (role === "tool") throw new TypeError("Cannot read a tool message: its content is no list of parts");
  return { role, content };
}

function textOf(part: Part): string {
  return part.type === "text" ? part.text : "";
}
