import type { ToolDefinition } from "@tare/messages";
import { editJson, objectFields } from "./json.ts";
import type { Protocol, ReadTool, WireRequest, WireTool } from "./protocol.ts";

/** Whether a tool is a function in front of the prompt: what the provider itself knows is none. */
export function isFunction(
  { definition: { function: { parameters } }, inFront }: ReturnType<Protocol["readTool"]>,
): boolean {
  return inFront && parameters !== undefined;
}

/**
 * A request of which only these functions stand in front of the prompt; the model finds the others by the provider's own
 * search, which stands behind them. One that the model has to call stands in front too. A mark of the cache on a tool that is
 * deferred goes on to the search. Nothing if the protocol has no such search, or there is nothing to defer.
 */
export function deferTools(
  request: WireRequest,
  isInFront: (name: string) => boolean,
): {
  /** With the provider's search among its tools. */
  readonly request: WireRequest;
  /** Definitions that are deferred. */
  readonly definitions: readonly ToolDefinition[];
  /** What searches. */
  readonly search: ToolDefinition;
} | undefined {
  const { protocol: { toolSearch, markField = "" }, tools = [] } = request;
  if (!toolSearch) return undefined;
  const forced = toolSearch.forced(request);
  const isDeferred = (tool: ReadTool) => {
    const { name } = tool.definition.function;
    return isFunction(tool) && !isInFront(name) && name !== forced;
  };
  const definitions = tools.filter(isDeferred).map(({ definition }) => definition);
  if (definitions.length === 0) return undefined;
  const { tool: { bytes, ...search }, defer } = toolSearch;
  const markOf = (tool: WireTool | undefined) => tool && objectFields(tool.bytes).get(markField);
  const marked = tools.findLast((tool) => markOf(tool) !== undefined);
  const mark = marked && isDeferred(marked) ? markOf(marked) : undefined;
  const value = mark && marked?.bytes.subarray(mark.start, mark.end);
  const searching = value ? editJson(bytes, [{ path: [markField], value }]) : bytes;
  return {
    request: {
      ...request,
      tools: [
        ...tools.map((tool) =>
          isDeferred(tool) ? { ...tool, inFront: false, bytes: defer(tool.bytes) } : tool
        ),
        { ...search, bytes: searching },
      ],
      hasOtherTools: true,
    },
    definitions,
    search: search.definition,
  };
}
