import { sameData } from "@tare/messages";
import { editJson, isRecord, type JsonRecord, readJsonAt } from "./json.ts";
import type { WireRequest, WireTool } from "./protocol.ts";

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
  const json = readJsonAt(tool.bytes, { start: 0, end: tool.bytes.length });
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
