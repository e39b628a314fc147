import type { Content, ContentPart, Message, ToolCall } from "@tare/messages";
import { isRecord, type JsonRecord } from "../json.ts";
import { type ItemPart, UnknownShape } from "../protocol.ts";

/** Longest text of a block that the planner doesn't know, in UTF-16 code units: such are pictures, not prose. */
const OPAQUE_CHARS = 1_000;

/**
 * The messages of an item: a reply is one message, of anything else each block is one, so that results that stand
 * together with texts beside them can be edited, and can leave, one by one.
 *
 * @throws {UnknownShape} if it isn't as the format says.
 */
export function readMessage(value: unknown): readonly ItemPart[] {
  if (!isRecord(value)) throw unknown("a message");
  const { role, content } = value;
  if (role !== "user" && role !== "assistant" && role !== "system") throw unknown("the role of a message");
  if (typeof content === "string") return [{ message: { role, content }, text: ["content"] }];
  const blocks = blocksOf(content);
  if (role === "assistant") {
    const mark = blocks.findLast(({ cache_control: mark }) => isRecord(mark))?.cache_control;
    return [{ message: readReply(blocks), ...(mark !== undefined && { mark: JSON.stringify(mark) }) }];
  }
  // A message of nothing is still one.
  if (blocks.length === 0) return [{ message: { role, content: [] } }];
  return blocks.map((block, at): ItemPart => {
    const path = ["content", at];
    const mark = markOf(block);
    const marked = mark === undefined ? {} : { mark: JSON.stringify(mark) };
    if (block.type === "tool_result") {
      const id = textOf(block.tool_use_id);
      const content = block.content ?? "";
      // What makes a tool known to the model, or is cited from, is no text of which a line could tell.
      const keeps = Array.isArray(content) && content.some((block) => !LEAVING.includes(block?.type));
      const message: Message = {
        role: "tool",
        tool_call_id: id,
        content: readContent(content),
        ...(keeps && { keep: true }),
      };
      const text = "content" in block ? { text: [...path, "content"] } : {};
      const holdsMark = mark !== undefined && !isRecord(block.cache_control);
      return { message, at: path, ...text, ...marked, ...(holdsMark && { holdsMark }) };
    }
    const isText = block.type === "text";
    const read = isText ? textOf(block.text) : [readPart(block)];
    return {
      message: { role, content: read },
      at: path,
      ...(isText && { text: [...path, "text"] }),
      ...marked,
    };
  });
}

/** Blocks of a result that may leave with it. */
const LEAVING: readonly unknown[] = ["text", "image"];

/** The message that the system prompt is, if there is one. @throws {UnknownShape} if it isn't as the format says. */
export function readSystem(system: unknown): readonly ItemPart[] {
  const content = typeof system === "string" ? system : blocksOf(system ?? []).map(readPart);
  return content.length === 0 ? [] : [{ message: { role: "system", content } }];
}

/**
 * A message or a system prompt without what clients change from request to request: without the marks of the cache,
 * and a text always as a block.
 */
export function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => typeof one === "string" ? asBlocks(one) : plain(one));
  if (!isRecord(value)) return value;
  const { cache_control: _, ...rest } = value;
  const holds = "role" in rest || rest.type === "tool_result";
  if (!holds || !("content" in rest)) return rest;
  const { content } = rest;
  return { ...rest, content: typeof content === "string" ? asBlocks(content) : plain(content) };
}

function asBlocks(text: string): readonly Extract<ContentPart, { readonly type: "text" }>[] {
  return [{ type: "text", text }];
}

/** The blocks of a content. @throws {UnknownShape} if it holds anything else. */
function blocksOf(content: unknown): readonly JsonRecord[] {
  const isList = Array.isArray(content) && content.every((block) => typeof block?.type === "string");
  if (isList) return content;
  throw unknown("a content");
}

/** The mark of a block; of a result also one of a block inside it. */
function markOf({ cache_control: own, type, content }: JsonRecord): unknown {
  if (isRecord(own)) return own;
  if (type !== "tool_result" || !Array.isArray(content)) return undefined;
  return content.findLast((block) => isRecord(block?.cache_control))?.cache_control;
}

function readReply(blocks: readonly JsonRecord[]): Message {
  const said: ContentPart[] = [];
  const thoughts: string[] = [];
  const calls: ToolCall[] = [];
  for (const block of blocks) {
    if (block.type === "thinking") thoughts.push(textOf(block.thinking));
    else if (block.type === "tool_use") calls.push(readCall(block));
    else said.push(readPart(block));
  }
  const [first] = said;
  const content = said.length === 1 && first?.type === "text" ? first.text : said;
  return {
    role: "assistant",
    content: said.length === 0 ? null : content,
    ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function readCall({ id, name, input }: JsonRecord): ToolCall {
  const called = { name: textOf(name), arguments: JSON.stringify(input ?? {}) };
  return { id: textOf(id), type: "function", function: called };
}

function readContent(content: unknown): Content {
  if (typeof content === "string") return content;
  const parts = blocksOf(content).map(readPart);
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts;
}

function readPart(block: JsonRecord): ContentPart {
  const { type, text, source } = block;
  if (type === "text") return { type, text: textOf(text) };
  if (type === "image") return { type: "image_url", image_url: { url: "" } };
  const data = isRecord(source) && typeof source.data === "string" ? source.data : undefined;
  if (type === "document" && isRecord(source)) {
    return source.type === "text" && data !== undefined
      ? { type: "text", text: data }
      : { type: "file", file: { file_data: data ?? "" } };
  }
  const { cache_control: _, ...rest } = block;
  const shorten = (_: string, value: unknown) =>
    typeof value === "string" ? value.slice(0, OPAQUE_CHARS) : value;
  return { type: "text", text: JSON.stringify(rest, shorten) };
}

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  throw unknown("a text");
}

function unknown(what: string): UnknownShape {
  return new UnknownShape(`${what} is not as the Messages format says`);
}
