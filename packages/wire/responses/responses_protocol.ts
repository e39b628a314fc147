import { type Content, type ContentPart, hashText, type Message, type ToolDefinition } from "@tare/messages";
import { ApiError } from "../api_error.ts";
import { isRecord, type JsonRecord } from "../json_record.ts";
import { BEARER, type ItemPart, type Protocol, UnknownShape } from "../protocol.ts";
import { readCommonHints, readField } from "../read_request.ts";
import { ResponsesTurnWriter } from "./responses_turn_writer.ts";

/** Longest text of an item that the planner doesn't know, in UTF-16 code units: such are pictures, not prose. */
const OPAQUE_CHARS = 1_000;

/**
 * OpenAI's responses: each item of the input is a message to the planner, which edits the outputs of function calls;
 * whatever isn't a message or a call of a function stays as it is.
 */
export const RESPONSES_PROTOCOL: Protocol = {
  name: "responses",
  path: "/responses",
  countPath: "/responses/input_tokens",
  listField: "input",
  head: {
    fields: ["instructions"],
    read: ([instructions]) => [{
      message: {
        role: "system",
        content: typeof instructions === "string" ? instructions : JSON.stringify(instructions ?? ""),
      },
    }],
  },
  auth: BEARER,
  followsField: "previous_response_id",
  readHints(body, headers) {
    const follows = readField(body, "previous_response_id");
    const conversation = readField(body, "conversation") ?? undefined;
    return {
      ...readCommonHints(body, headers),
      ...(typeof follows === "string" && { follows }),
      ...(conversation !== undefined && { name: JSON.stringify(conversation) }),
      isStateful: typeof follows === "string" || conversation !== undefined,
      isDetached: readField(body, "background") === true,
    };
  },
  readItem(value) {
    const { type, id } = isRecord(value) ? value : {};
    const refersTo = type === "item_reference" && typeof id === "string" ? { refersTo: id } : {};
    const purpose: Partial<ItemPart> = type === "compaction_trigger" ? { purpose: "compaction" } : {};
    return [{ message: readItem(value), ...textOf(type), ...refersTo, ...purpose }];
  },
  plain,
  readTool,
  writeMessage: ({ role, content }) => JSON.stringify({ role, content }),
  writeAnswers: (answers) =>
    answers.map(({ id, text }) =>
      JSON.stringify({ type: "function_call_output", call_id: id, output: text })
    ),
  writeTool,
  addedFields: () => new Map(),
  writer: (_, options) => new ResponsesTurnWriter({ ...options, readItem: RESPONSES_PROTOCOL.readItem }),
  refuse: (status, message, code) => new ApiError(status, message, { code }).toResponse(),
};

/** What clients send back as they like, and what says nothing of an item. */
const UNTOLD: readonly string[] = ["status", "annotations", "logprobs"];

/** An item without what clients add or leave out: the same program spells it in two ways, live and resumed. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (!isRecord(value)) return value;
  const told = Object.entries(value).filter(([name, field]) =>
    !UNTOLD.includes(name) && field !== null && !(Array.isArray(field) && field.length === 0)
  );
  const sorted = told.toSorted(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(sorted.map(([name, field]) => [name, plain(field)]));
}

const OUTPUTS: readonly unknown[] = ["function_call_output", "custom_tool_call_output"];

function textOf(type: unknown): Pick<ItemPart, "text"> {
  return OUTPUTS.includes(type) ? { text: ["output"] } : {};
}

function readItem(item: unknown): Message {
  if (typeof item === "string") return { role: "user", content: item };
  if (!isRecord(item)) throw unknown("an item of the input");
  const { type = "message", id } = item;
  switch (type) {
    case "message":
      return readMessage(item);
    case "function_call":
      return {
        role: "assistant",
        tool_calls: [{
          id: text(item.call_id),
          type: "function",
          function: { name: text(item.name), arguments: text(item.arguments) },
        }],
      };
    case "custom_tool_call":
      return {
        role: "assistant",
        tool_calls: [{
          id: text(item.call_id),
          type: "custom",
          custom: { name: text(item.name), input: text(item.input) },
        }],
      };
    case "function_call_output":
    case "custom_tool_call_output":
      return { role: "tool", tool_call_id: text(item.call_id), content: readContent(item.output) };
    case "item_reference":
    case "reasoning": {
      // Some clients leave the id away; what is sealed they must send as it was.
      const { encrypted_content: sealed } = item;
      const known = typeof sealed === "string" ? `sealed ${hashText(sealed)}` : id;
      return withId({ role: "assistant", content: null, reasoning_content: summary(item) }, known);
    }
    default:
      return withId({ role: "assistant", content: JSON.stringify(item, shorten) }, id);
  }
}

/** A client may send an item back in its own spelling; its id stays. */
function withId(message: Message, id: unknown): Message {
  return typeof id === "string" ? Object.assign(message, { id }) : message;
}

function readMessage({ role, content }: JsonRecord): Message {
  const read = readContent(content);
  if (role === "system" || role === "developer" || role === "user" || role === "assistant") {
    return { role, content: read };
  }
  throw unknown("the role of a message");
}

function readContent(content: unknown): Content {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) throw unknown("the content of an item");
  return content.map(readPart);
}

function readPart(part: unknown): ContentPart {
  if (!isRecord(part)) throw unknown("a part of a content");
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: text(part.text) };
    case "refusal":
      return { type: "refusal", refusal: text(part.refusal) };
    case "input_image":
      return {
        type: "image_url",
        image_url: { url: "", ...(typeof part.detail === "string" && { detail: part.detail }) },
      };
    case "input_file":
      return { type: "file", file: { file_data: typeof part.file_data === "string" ? part.file_data : "" } };
    default:
      throw unknown("a part of a content");
  }
}

function readTool(tool: unknown): ToolDefinition | undefined {
  if (!isRecord(tool)) throw unknown("a tool");
  const { type, name, description, parameters, strict } = tool;
  if (type !== "function") return undefined;
  if (typeof name !== "string") throw unknown("a tool");
  return {
    type: "function",
    function: {
      name,
      ...(typeof description === "string" && { description }),
      ...(isRecord(parameters) && { parameters }),
      ...(typeof strict === "boolean" && { strict }),
    },
  };
}

function writeTool({ type, function: shown }: ToolDefinition, original?: unknown): string {
  // Without a word the upstream takes a schema as strict.
  if (!isRecord(original)) return JSON.stringify({ type, ...shown, strict: shown.strict ?? false });
  const { description: _, ...rest } = original;
  return JSON.stringify({ ...rest, ...shown });
}

function summary({ summary }: JsonRecord): string {
  if (!Array.isArray(summary)) return "";
  return summary.map((part) => isRecord(part) && typeof part.text === "string" ? part.text : "").join("\n");
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  throw unknown("a text");
}

function shorten(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.slice(0, OPAQUE_CHARS) : value;
}

function unknown(what: string): UnknownShape {
  return new UnknownShape(`${what} is not as the responses format says`);
}
