import type { Message, ToolDefinition } from "@tare/messages";
import { ChatWriter } from "./chat_writer.ts";
import { isRecord } from "../json_record.ts";
import { UnknownShape, type WireFormat } from "../wire_format.ts";

/** The chat-completions format: its messages are the planner's own. */
export const CHAT_FORMAT: WireFormat = {
  name: "chat",
  path: "/chat/completions",
  listField: "messages",
  resultField: "content",
  asksForUsage: true,
  readItem(value) {
    if (!isMessage(value)) throw new UnknownShape("a message is not as the chat-completions format says");
    return value;
  },
  writeMessage: (message) => JSON.stringify(message),
  readTool(value) {
    if (isRecord(value) && typeof value.type === "string" && value.type !== "function") return undefined;
    if (!isTool(value)) throw new UnknownShape("a tool is not as the chat-completions format says");
    return value;
  },
  writeTool: (tool) => JSON.stringify(tool),
  writer: (options) => new ChatWriter(options),
};

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"];

/** Whether all that the planner reads of a message has the type that it expects. */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value) || !ROLES.includes(value.role as string) || !isContent(value.content)) return false;
  const { role, content, name, reasoning_content, refusal, tool_calls: calls, tool_call_id } = value;
  if (![name, reasoning_content, refusal].every((text) => isOptional(text, "string"))) return false;
  if (role === "tool") return typeof tool_call_id === "string" && content != null;
  if (role !== "assistant") return content != null || role === "function";
  return calls === undefined || (Array.isArray(calls) && calls.every(isCall));
}

function isCall(value: unknown): boolean {
  if (!isRecord(value) || typeof value.id !== "string") return false;
  const { type, custom, function: called } = value;
  return type === "custom"
    ? isRecord(custom) && typeof custom.name === "string" && typeof custom.input === "string"
    : isRecord(called) && typeof called.name === "string" && typeof called.arguments === "string";
}

function isContent(value: unknown): boolean {
  return isOptional(value, "string") || (Array.isArray(value) && value.every(isPart));
}

function isPart(value: unknown): boolean {
  if (!isRecord(value) || typeof value.type !== "string") return false;
  const { type, text, refusal, image_url, input_audio, file } = value;
  switch (type) {
    case "text":
      return typeof text === "string";
    case "refusal":
      return typeof refusal === "string";
    case "image_url":
      return isRecord(image_url);
    case "input_audio":
      return isRecord(input_audio) && typeof input_audio.data === "string";
    case "file":
      return isRecord(file) && isOptional(file.file_data, "string");
    default:
      return true;
  }
}

function isTool(value: unknown): value is ToolDefinition {
  if (!isRecord(value) || !isRecord(value.function)) return false;
  const { name, description, parameters } = value.function;
  return typeof name === "string" && isOptional(description, "string") &&
    (parameters === undefined || isRecord(parameters));
}

function isOptional(value: unknown, type: "string"): boolean {
  return value === undefined || value === null || typeof value === type;
}
