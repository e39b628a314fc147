import { contentText, type Message, type ToolDefinition } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import {
  ApiError,
  MESSAGES_PROTOCOL,
  readJsonAt,
  searchBlocks,
  type WireRequest,
  withFoundTools,
} from "@tare/wire/internal";
import type { SimulatedReply } from "../model.ts";

const MAX_FOUND = 5;

const { markField = "" } = MESSAGES_PROTOCOL;

export interface SearchableTools {
  readonly name: string;
  readonly tools: NonNullable<WireRequest["tools"]>;
}

/** Returns the searchable tools, if there is a search tool. @throws {ApiError} 400 if a provider would reject them. */
export function searchableTools({ tools = [], items }: WireRequest): SearchableTools | undefined {
  const all = tools.map(({ bytes }) => jsonOf(bytes));
  const later = all.filter((tool) => tool.defer_loading === true);
  if (later.length > 0 && later.length === all.length) {
    throw new ApiError(400, "Not all tools may be deferred.");
  }
  for (const tool of later) {
    const other = [markField, "input_examples"].find((field) => tool[field] !== undefined);
    if (other !== undefined) {
      throw new ApiError(400, `The tool ${tool.name} is deferred, and so it may have no ${other}.`);
    }
  }
  const names = new Set(all.map(({ name }) => name));
  // Reading again, because the parsed items lack unlisted references.
  const asSent = items.flatMap(({ bytes }) => bytes ? MESSAGES_PROTOCOL.readItem(jsonOf(bytes)) : []);
  for (const name of asSent.flatMap(({ finds = [] }) => finds)) {
    if (!names.has(name)) {
      throw new ApiError(400, `A reference names the tool ${name}, which isn't listed.`);
    }
  }
  const search = all.find(({ type }) => String(type).startsWith("tool_search_tool"));
  if (search?.defer_loading) throw new ApiError(400, "A tool that searches can't be deferred.");
  if (!search) return undefined;
  return { name: String(search.name), tools: tools.filter(({ inFront }) => !inFront) };
}

function jsonOf(bytes: Uint8Array<ArrayBuffer>): JsonRecord {
  return readJsonAt(bytes) as JsonRecord;
}

export interface Searched {
  readonly blocks: readonly JsonRecord[];
  readonly message: Message;
}

/** Runs a reply's tool search after the blocks `before`; undefined if it doesn't search. */
export function search(
  reply: SimulatedReply,
  { name, tools }: SearchableTools,
  before: readonly JsonRecord[],
): Searched | undefined {
  const call = reply.tool_calls?.find(({ function: called }) => called.name === name);
  if (!call) return undefined;
  const id = `srvtoolu_${before.length}`;
  const input: JsonRecord = JSON.parse(call.function.arguments);
  const text = contentText(reply.content ?? null);
  const found = findTools(String(input.query), tools.map(({ definition }) => definition));
  const blocks = [
    ...before,
    ...(text ? [{ type: "text", text }] : []),
    ...searchBlocks({ id, name, input, found }),
  ];
  const parts = MESSAGES_PROTOCOL.readItem({ role: "assistant", content: blocks });
  const [item] = withFoundTools([{ key: "", parts }], tools);
  return { blocks, message: item!.parts[0]!.message };
}

/** Returns the tools whose definitions match most words of the query. */
function findTools(query: string, tools: readonly ToolDefinition[]): readonly string[] {
  const words = query.toLowerCase().match(/\w+/g) ?? [];
  return tools.map((tool) => {
    const text = JSON.stringify(tool).toLowerCase();
    return { name: tool.function.name, score: words.filter((word) => text.includes(word)).length };
  }).filter(({ score }) => score > 0).sort((a, b) => b.score - a.score).slice(0, MAX_FOUND)
    .map(({ name }) => name);
}
