import type { Message, ToolDefinition } from "@tare/messages";
import { ApiError } from "../api_error.ts";
import { editJson } from "../edit_json.ts";
import { isRecord } from "../json_record.ts";
import { BEARER, type Protocol, UnknownShape } from "../protocol.ts";
import { readCommonHints, readField, type WireRequest } from "../read_request.ts";
import { ChatTurnWriter } from "./chat_turn_writer.ts";

/** OpenAI's chat completions: their messages are the planner's own. */
export const CHAT_PROTOCOL: Protocol = {
  name: "chat",
  path: "/chat/completions",
  listField: "messages",
  auth: BEARER,
  readHints(body, headers) {
    const count = readField(body, "n");
    return {
      ...readCommonHints(body, headers),
      isStateful: false,
      isDetached: typeof count === "number" && count > 1,
    };
  },
  readItem(value) {
    if (!isMessage(value)) throw new UnknownShape("a message is not as the chat-completions format says");
    return [{ message: value, text: CONTENT }];
  },
  readTool(value) {
    if (isRecord(value) && typeof value.type === "string" && value.type !== "function") return undefined;
    if (!isTool(value)) throw new UnknownShape("a tool is not as the chat-completions format says");
    return value;
  },
  writeMessage: (message) => JSON.stringify(message),
  writeAnswers: (answers) =>
    answers.map(({ id, text }) => JSON.stringify({ role: "tool", tool_call_id: id, content: text })),
  writeTool: (tool) => JSON.stringify(tool),
  addedFields(request) {
    const options = usageOptions(request);
    return new Map(options && [[STREAM_OPTIONS, options]]);
  },
  writer: (request, options) =>
    new ChatTurnWriter({ ...options, hidesUsage: usageOptions(request) !== undefined }),
  refuse: (status, message, code) => new ApiError(status, message, { code }).toResponse(),
};

const CONTENT = ["content"];
const STREAM_OPTIONS = "stream_options";

/** The options with which a stream tells usage; nothing if it does already, or they aren't as the format says. */
function usageOptions(request: WireRequest): Uint8Array<ArrayBuffer> | undefined {
  const { bytes, fields, stream } = request;
  if (!stream) return undefined;
  const options = readField(request, STREAM_OPTIONS);
  const span = fields.get(STREAM_OPTIONS);
  if (!span || options === null) return encoder.encode('{"include_usage":true}');
  if (!isRecord(options) || options.include_usage === true) return undefined;
  const asks = { path: ["include_usage"], value: encoder.encode("true") };
  return editJson(bytes.subarray(span.start, span.end), [asks]);
}

const encoder = new TextEncoder();

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
