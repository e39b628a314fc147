import type { ToolDefinition } from "@tare/messages";
import { sameData } from "@tare/messages/internal";
import { editJson, isRecord, type JsonRecord, objectFields, readJsonAt } from "./json.ts";
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

/** A tool as a conversation first had it. */
type FirstTool = ReturnType<typeof steadyTools>["first"][number];

/**
 * A request whose tools stand in the order, and are spelled, as they were when they first came: clients that ask servers
 * for them anew may list them in another order, or with their fields in another, and whatever stands behind them would be
 * read again. Marks of the cache stay where they are. What a tool says is never changed: one that says something else takes
 * the place of the one before, new ones stand behind; deferred ones, which aren't in front of the prompt, stand as they come.
 * The same request if that changes nothing, or if two tools have one name.
 */
export function steadyTools(
  request: WireRequest,
  first: readonly (NonNullable<WireRequest["tools"]>[number] & {
    readonly name: string;
    /** What it says, without its mark of the provider's cache. */
    readonly said: JsonRecord;
    /** That mark, as JSON. Default: it has none. */
    readonly mark?: string;
  })[],
): {
  readonly request: WireRequest;
  /** The tools as the conversation first had them. */
  readonly first: typeof first;
} {
  const { tools: all = [], protocol: { markField = "" } } = request;
  const tools = all.filter(({ inFront }) => inFront);
  const now = tools.flatMap((tool) => readFirst(tool, markField) ?? []);
  const unchanged = { request, first };
  if (now.length < tools.length || new Set(now.map(({ name }) => name)).size < now.length) return unchanged;
  const places = new Map(first.map(({ name }, at) => [name, at]));
  const placeOf = ({ name }: FirstTool) => places.get(name) ?? Infinity;
  const sorted = now.toSorted((a, b) => placeOf(a) === placeOf(b) ? 0 : placeOf(a) - placeOf(b));
  const known = [...first];
  const steady: WireTool[] = [];
  for (const [at, tool] of sorted.entries()) {
    const place = placeOf(tool);
    const before = first[place];
    const isSame = before && sameData(before.said, tool.said);
    // Their memory is that of whole requests.
    if (!isSame) known[before ? place : known.length] = { ...tool, bytes: tool.bytes.slice() };
    const { mark } = now[at]!;
    const fits = (one: FirstTool) => (one.mark === undefined) === (mark === undefined);
    const spelled = [isSame ? before : tool, tool].find(fits);
    if (spelled) {
      const { definition, inFront, bytes } = spelled;
      steady.push({ definition, inFront, bytes });
    } else if (mark !== undefined) {
      const { definition, inFront } = tool;
      const bytes = editJson(tool.bytes, [{ path: [markField], value: encoder.encode(mark) }]);
      steady.push({ definition, inFront, bytes });
    } else return unchanged;
  }
  const isChanged = steady.some(({ bytes }, at) => !sameBytes(bytes, tools[at]!.bytes));
  const firstNow = known.length > first.length || known.some((tool, at) => tool !== first[at])
    ? known
    : first;
  return {
    request: isChanged
      ? { ...request, tools: all.map((tool) => tool.inFront ? steady.shift()! : tool), hasOtherTools: true }
      : request,
    first: firstNow,
  };
}

function readFirst(tool: WireTool, markField: string): FirstTool | undefined {
  const json = readJsonAt(tool.bytes);
  if (!isRecord(json)) return undefined;
  const { [markField]: mark, ...said } = json;
  const { name = isRecord(said.function) ? said.function.name : said.type } = said;
  if (typeof name !== "string") return undefined;
  return { ...tool, name, said, ...(isRecord(mark) && { mark: JSON.stringify(mark) }) };
}

const encoder = new TextEncoder();

function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one === other || (one.length === other.length && one.every((byte, at) => byte === other[at]));
}
