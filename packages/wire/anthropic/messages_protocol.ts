import type { ToolDefinition } from "@tare/messages";
import { isRecord } from "../json_record.ts";
import { type Protocol, UnknownShape, type WireAuth } from "../protocol.ts";
import { readCommonHints, readField } from "../read_request.ts";
import { readCacheMarks } from "./cache_marks.ts";
import { errorBody } from "./error_body.ts";
import { MessagesTurnWriter } from "./messages_turn_writer.ts";
import { arrangeItems } from "./arrange_items.ts";
import { plain, readMessage, readSystem } from "./read_message.ts";
import { toolOf } from "./write_messages_body.ts";

/** A key as clients of the Messages API send it; those who have signed in send a bearer token. */
const API_KEY: WireAuth = {
  headers: ["x-api-key", "authorization"],
  header: (key) => ["x-api-key", key],
};

/**
 * Anthropic's Messages: a reply is one message to the planner; of the user's items each block is one, so that single
 * results are edited. What marks the cache doesn't count, and is never lost.
 */
export const MESSAGES_PROTOCOL: Protocol = {
  name: "messages",
  path: "/messages",
  countPath: "/messages/count_tokens",
  listField: "messages",
  head: { fields: ["system"], read: ([system]) => readSystem(system) },
  auth: API_KEY,
  speaks: (headers) => headers.has("anthropic-version"),
  readHints(body, headers) {
    const metadata = readField(body, "metadata");
    const user = isRecord(metadata) ? metadata.user_id : undefined;
    return {
      ...readCommonHints(body, headers),
      ...(typeof user === "string" && { key: user }),
      isStateful: false,
      // A thread is a history that the upstream keeps; its tools must stay as they are.
      isDetached: isRecord(readField(body, "thread")) ||
        isChangedUpstream(readField(body, "context_management")),
    };
  },
  cacheTtlMs: (request) => readCacheMarks(request).at(-1)?.ttlMs ?? 0,
  readItem: readMessage,
  plain,
  readTool(tool) {
    if (!isRecord(tool)) throw unknownTool();
    const { type = "custom", name, description, input_schema: parameters } = tool;
    if (type !== "custom") return undefined;
    if (typeof name !== "string" || !isRecord(parameters)) throw unknownTool();
    return {
      type: "function",
      function: { name, ...(typeof description === "string" && { description }), parameters },
    };
  },
  writeMessage: ({ role, content }) =>
    JSON.stringify({ role: role === "assistant" ? role : "user", content: content ?? "" }),
  writeAnswers: (answers) => {
    const content = answers.map(({ id, text }) => ({ type: "tool_result", tool_use_id: id, content: text }));
    return content.length === 0 ? [] : [JSON.stringify({ role: "user", content })];
  },
  writeTool,
  addedFields: () => new Map(),
  arrange: arrangeItems,
  writer: (_, options) => new MessagesTurnWriter(options),
  refuse: (status, message) => Response.json(errorBody(status, message), { status }),
};

/** Whether the upstream takes things out of the prompt by itself, and asks nobody for the price. */
function isChangedUpstream(management: unknown): boolean {
  const edits = isRecord(management) && Array.isArray(management.edits) ? management.edits : [];
  return edits.some((edit) => !isRecord(edit) || edit.keep !== "all");
}

function writeTool(tool: ToolDefinition, original?: unknown): string {
  const now = toolOf(tool);
  if (!isRecord(original)) return JSON.stringify(now);
  const { description: _, ...rest } = original;
  return JSON.stringify({ ...rest, ...now });
}

function unknownTool(): UnknownShape {
  return new UnknownShape("a tool is not as the Messages format says");
}
