import { editJson, isRecord, jsonBytes, type JsonRecord, objectFields } from "../json.ts";
import type { Protocol } from "../protocol.ts";
import { wholeTool } from "../request.ts";

const encoder = new TextEncoder();

/** Search by words; the other one takes patterns. */
const SEARCH = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };

/**
 * The provider's own tool search. A tool with `defer_loading` enters the prompt where a search references it.
 * It can't have a cache breakpoint, and tools with examples prevent deferral.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
 */
export const TOOL_SEARCH: NonNullable<Protocol["toolSearch"]> = {
  tool: { ...wholeTool(SEARCH), bytes: jsonBytes(SEARCH) },
  forbids: (tool) =>
    isRecord(tool) &&
    ("defer_loading" in tool || "input_examples" in tool || String(tool.type).startsWith("tool_search_tool")),
  defer(tool) {
    const isMarked = objectFields(tool).has("cache_control");
    const bare = isMarked ? editJson(tool, [{ path: ["cache_control"] }]) : tool;
    return editJson(bare, [{ path: ["defer_loading"], value: encoder.encode("true") }]);
  },
  without(item) {
    if (!isRecord(item) || !Array.isArray(item.content)) return item;
    const content = item.content.filter((block) => !isSearch(block));
    return content.length === item.content.length ? item : { ...item, content };
  },
};

/** Returns the blocks of a search: call and references. */
export function searchBlocks({ id, found, ...rest }: {
  readonly id: string;
  readonly name: string;
  readonly input: JsonRecord;
  readonly found: readonly string[];
}): readonly JsonRecord[] {
  const references = found.map((tool_name) => ({ type: "tool_reference", tool_name }));
  const content = { type: "tool_search_tool_search_result", tool_references: references };
  return [
    { type: "server_tool_use", id, ...rest },
    { type: "tool_search_tool_result", tool_use_id: id, content },
  ];
}

export function isSearch(block: unknown): boolean {
  if (!isRecord(block)) return false;
  const isCall = block.type === "server_tool_use" && String(block.name).startsWith("tool_search_tool");
  return isCall || block.type === "tool_search_tool_result";
}
