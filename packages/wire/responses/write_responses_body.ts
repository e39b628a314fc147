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
import {
  absentPart,
  EMPTY_MESSAGE,
  type LegalForms,
  legalPrompt,
  placeCalls,
  wellFormed,
} from "../legality.ts";
import { UnknownShape } from "../protocol.ts";

/** Forms accepted by providers of Responses. */
export const RESPONSES_FORMS: LegalForms = {
  name: /^[A-Za-z0-9_-]{1,64}$/,
  id: /^[\x20-\x7e]{1,64}$/,
};

/**
 * Returns the prompt and settings of a Responses request. Nothing is stored, so replies read by
 * `ResponseAssembler` keep their original items, including sealed reasoning. Illegal names and ids are
 * replaced, and unsupported content becomes a placeholder.
 * @throws {UnknownShape} if a setting isn't supported.
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
  { settings = {}, ...request }: Pick<ModelRequest, "messages" | "tools" | "settings">,
): JsonRecord {
  const { messages, tools, nameOf } = legalPrompt(request, RESPONSES_FORMS);
  /** Call ids of custom tools, whose results have their own type. */
  const custom = new Set<string>();
  const input = messages.flatMap(({ message, made }): JsonRecord[] => {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) if (call.type === "custom") custom.add(call.id);
      return replyItems(message, made);
    }
    return message.role === "function" ? [] : [itemOf(message, custom)];
  });
  return wellFormed({
    input: input.length > 0 ? input : [{ type: "message", role: "user", content: EMPTY_MESSAGE }],
    ...(tools.length > 0 && { tools: tools.map(({ definition }) => responsesTool(definition)) }),
    store: false,
    ...settingsOf(settings, nameOf),
  });
}

export function responsesTool({ type, function: definition }: ToolDefinition): JsonRecord {
  // The API's default is strict.
  return { type, ...definition, strict: definition.strict ?? false };
}

/**
 * Returns the original items of a reply, if stored, with its calls.
 * @param made Its calls with the items' ids.
 */
function replyItems(
  { content, refusal, tool_calls: calls = [], carried }: AssistantMessage,
  made: readonly ToolCall[],
): JsonRecord[] {
  const items = carried?.items;
  if (!items) {
    const text = contentText(content) || refusal || "";
    return [
      ...(text === "" ? [] : [{ type: "message", role: "assistant", content: text }]),
      ...calls.map(callItem),
    ];
  }
  return placeCalls(items, { calls, made, idOf: ({ call_id: id }) => id, write: callItem });
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

function itemOf(
  message: Exclude<Message, AssistantMessage | { readonly role: "function" }>,
  custom: ReadonlySet<string>,
): JsonRecord {
  const { role } = message;
  const content = contentOf(message.content);
  if (message.role !== "tool") {
    return { type: "message", role, content: message.content.length === 0 ? EMPTY_MESSAGE : content };
  }
  const { tool_call_id: call_id } = message;
  const type = custom.has(call_id) ? "custom_tool_call_output" : "function_call_output";
  return { type, call_id, output: message.content.length === 0 ? "" : content };
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
      return { type: "input_text", text: absentPart(part.type) };
  }
}

/** @throws {UnknownShape} if a setting isn't supported. */
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
  nameOf: (name: string) => string,
): JsonRecord {
  const [param] = Object.entries(rest).find(([, value]) => value !== undefined) ?? [];
  if (param !== undefined) {
    throw new UnknownShape(`the Responses format doesn't support ${param}`, { param });
  }
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(effort !== undefined && { reasoning: { effort } }),
    ...(verbosity !== undefined && { text: { verbosity } }),
    ...(choice !== undefined && {
      tool_choice: choice === "required" ? choice : { type: "function", name: nameOf(choice.function.name) },
    }),
    ...(parallel_tool_calls !== undefined && { parallel_tool_calls }),
  };
}
