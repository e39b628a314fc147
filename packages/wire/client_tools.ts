import type { ToolDefinition } from "@tare/messages";
import { sameData } from "@tare/messages/internal";
import { editJson, isRecord, type JsonRecord, objectFields, readJsonAt } from "./json.ts";
import type { Protocol, ReadTool, WireRequest, WireTool } from "./protocol.ts";
import { readField } from "./request.ts";

/** Returns whether a tool is a function at the front of the prompt. */
export function isFunction(
  { definition: { function: { parameters } }, inFront }: ReturnType<Protocol["readTool"]>,
): boolean {
  return inFront && parameters !== undefined;
}

/**
 * Returns a request with these functions, and those that its tool choice names, at the front; the provider's search,
 * added last, finds the others and takes over their cache breakpoint. A pair of tools, added last, replaces them.
 * Returns `undefined` if unsupported, or nothing is deferred.
 */
export function deferTools(
  request: WireRequest,
  isInFront: (name: string) => boolean,
  pairOf?: (deferred: readonly ToolDefinition[]) => readonly ToolDefinition[],
): {
  readonly request: WireRequest;
  readonly definitions: readonly ToolDefinition[];
  /** The provider's search, or the pair. */
  readonly added: readonly ToolDefinition[];
} | undefined {
  const { protocol: { toolSearch, markField = "", writeTool }, tools = [] } = request;
  if (!toolSearch && !pairOf) return undefined;
  const chosen = namesIn(readField(request, "tool_choice"));
  const isDeferred = (tool: ReadTool) => {
    const { name } = tool.definition.function;
    return isFunction(tool) && !isInFront(name) && !chosen.includes(name);
  };
  const definitions = tools.filter(isDeferred).map(({ definition }) => definition);
  if (definitions.length === 0) return undefined;
  if (!toolSearch) {
    const added = pairOf!(definitions);
    const pair = added.map((definition): WireTool => ({
      definition,
      inFront: true,
      bytes: encoder.encode(writeTool(definition)),
    }));
    const inFront = tools.filter((tool) => !isDeferred(tool));
    return { request: { ...request, tools: [...inFront, ...pair], hasOtherTools: true }, definitions, added };
  }
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
    added: [search.definition],
  };
}

/** Returns the names in a tool choice, which may list several. */
function namesIn(choice: unknown): readonly string[] {
  if (Array.isArray(choice)) return choice.flatMap(namesIn);
  if (!isRecord(choice)) return [];
  return Object.entries(choice).flatMap(([field, value]) =>
    field === "name" && typeof value === "string" ? [value] : namesIn(value)
  );
}

type FirstTool = ReturnType<typeof steadyTools>["first"][number];

/**
 * Returns a request with tools in their first order and spelling: clients send them in varying order and
 * spelling, which would invalidate the cached prefix. Cache breakpoints keep their position; changed tools
 * replace previous ones, new ones follow, deferred ones stay in place. Returns the same request if unchanged,
 * or if names repeat.
 */
export function steadyTools(
  request: WireRequest,
  first: readonly (NonNullable<WireRequest["tools"]>[number] & {
    readonly name: string;
    /** Fields without the breakpoint. */
    readonly body: JsonRecord;
    /** Breakpoint, as JSON. Default: none. */
    readonly mark?: string;
  })[],
): {
  readonly request: WireRequest;
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
    const isSame = before && sameData(before.body, tool.body);
    // The original is a view of the whole request.
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
  const { [markField]: mark, ...body } = json;
  const { name = isRecord(body.function) ? body.function.name : body.type } = body;
  if (typeof name !== "string") return undefined;
  return { ...tool, name, body, ...(isRecord(mark) && { mark: JSON.stringify(mark) }) };
}

const encoder = new TextEncoder();

function sameBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one === other || (one.length === other.length && one.every((byte, at) => byte === other[at]));
}
