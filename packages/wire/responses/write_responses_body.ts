import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  contentText,
  type Message,
  type ModelRequest,
  type ModelSettings,
  type ToolCall,
  type ToolDefinition,
} from "@tare/messages";
import type { JsonRecord } from "../json.ts";
import { UnknownShape } from "../protocol.ts";

/**
 * The fields of a request in the Responses format that hold its prompt, `input`, and `tools` if there are some, and that
 * say how the model shall write. Nothing of it is kept by the provider, so that what it has sealed of a reply goes back
 * with the reply's other items, in their order, if `ResponseAssembler` has read it: none is there without what it was
 * thought for.
 *
 * @throws {UnknownShape} if a message holds what the format has no place for, such as a recording; or that names the
 * setting which it has no place for.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { responsesBody } from "@tare/wire";
 *
 * const messages = [{ role: "user", content: "Hi." }] as const;
 * assertEquals(responsesBody({ messages, tools: [], settings: { reasoning_effort: "low", verbosity: "high" } }), {
 *   input: [{ type: "message", role: "user", content: "Hi." }],
 *   store: false,
 *   reasoning: { effort: "low" },
 *   text: { verbosity: "high" },
 * });
 * ```
 */
export function responsesBody(
  { messages, tools, settings = {} }: Pick<ModelRequest, "messages" | "tools" | "settings">,
): JsonRecord {
  /** Ids of calls of custom tools, whose results are items of their own kind. */
  const custom = new Set<string>();
  const input = messages.flatMap((message): JsonRecord[] => {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) if (call.type === "custom") custom.add(call.id);
      return replyItems(message);
    }
    return [itemOf(message, custom)];
  });
  return {
    input,
    ...(tools.length > 0 && { tools: tools.map(responsesTool) }),
    store: false,
    ...settingsOf(settings),
  };
}

/** A tool as the Responses format has it. */
export function responsesTool({ type, function: shown }: ToolDefinition): JsonRecord {
  // Without a word the upstream takes a schema as strict.
  return { type, ...shown, strict: shown.strict ?? false };
}

/** The items of a reply: as they came, if it carries them, with its calls' names and arguments in their places. */
function replyItems({ content, refusal, tool_calls: calls = [], carried }: AssistantMessage): JsonRecord[] {
  const items = carried?.items;
  if (!items) {
    const text = contentText(content) || refusal || "";
    return [
      ...(text === "" ? [] : [{ type: "message", role: "assistant", content: text }]),
      ...calls.map(callItem),
    ];
  }
  return items.map((item) => {
    const call = calls.find(({ id }) => id === item.call_id);
    return call ? { ...item, ...callItem(call) } : item;
  });
}

function callItem(call: ToolCall): JsonRecord {
  const { id: call_id } = call;
  return call.type === "custom"
    ? { type: "custom_tool_call", call_id, name: call.custom.name, input: call.custom.input }
    : {
      type: "function_call",
      call_id,
      name: call.function.name,
      arguments: call.function.arguments,
    };
}

function itemOf(message: Exclude<Message, AssistantMessage>, custom: ReadonlySet<string>): JsonRecord {
  const { role } = message;
  if (message.role === "function") {
    throw new UnknownShape('the Responses format has no place for a message of role "function"');
  }
  const content = contentOf(message.content);
  if (message.role !== "tool") return { type: "message", role, content };
  const { tool_call_id: call_id } = message;
  const type = custom.has(call_id) ? "custom_tool_call_output" : "function_call_output";
  return { type, call_id, output: content };
}

function contentOf(content: Content): unknown {
  return typeof content === "string" ? content : content.map(partOf);
}

function partOf(part: ContentPart): JsonRecord {
  switch (part.type) {
    case "text":
      return { type: "input_text", text: part.text };
    case "refusal":
      return { type: "input_text", text: part.refusal };
    case "image_url": {
      const { url, detail = "auto" } = part.image_url;
      return { type: "input_image", image_url: url, detail };
    }
    case "file":
      return { type: "input_file", ...part.file };
    default:
      throw new UnknownShape(`the Responses format has no place for a part of type "${part.type}"`);
  }
}

/** The fields that say how the model shall write. @throws {UnknownShape} that names the setting without a place. */
function settingsOf(
  {
    temperature,
    top_p,
    reasoning_effort: effort,
    verbosity,
    tool_choice: choice,
    parallel_tool_calls,
    ...rest
  }: ModelSettings,
): JsonRecord {
  const [param] = Object.entries(rest).find(([, value]) => value !== undefined) ?? [];
  if (param !== undefined) {
    throw new UnknownShape(`${param} can't be sent: the Responses format has no place for it`, { param });
  }
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(effort !== undefined && { reasoning: { effort } }),
    ...(verbosity !== undefined && { text: { verbosity } }),
    ...(choice !== undefined && {
      tool_choice: choice === "required" ? choice : { type: "function", name: choice.function.name },
    }),
    ...(parallel_tool_calls !== undefined && { parallel_tool_calls }),
  };
}
