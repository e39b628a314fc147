import { assert, assertEquals } from "@std/assert";
import { checkMessages, countBreakpoints } from "./lossless_messages.ts";
import { sameData } from "@tare/messages/internal";
import { archiveRef, RECALL_TOOL } from "@tare/prune";
import { parsePlaceholder } from "@tare/prune/internal";
import { compactTool } from "@tare/schemas";
import { isIngested } from "./ingested.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Parses JSON with each number as its source text. */
function readLossless(text: string): unknown {
  return JSON.parse(
    text,
    // TypeScript's types lack the source of a primitive value.
    (_, value, ...[context]: [{ readonly source?: string }?]) =>
      typeof value === "number" ? `number ${context?.source}` : value,
  );
}

function readFields(body: Uint8Array<ArrayBuffer>): Fields | undefined {
  try {
    return readLossless(new TextDecoder("utf-8", { fatal: true }).decode(body)) as Fields;
  } catch {
    return undefined;
  }
}

export interface FoundEdits {
  elided: number;
  ingested: number;
  dropped: number;
  compacted: number;
}

/**
 * Checks that the upstream received the client's request with only these edits: results compressed or
 * replaced by a line with their hash, old turns replaced by a line that counts them, and compact tools.
 *
 * @throws {AssertionError} if anything else differs.
 */
export async function checkLossless(
  { path, sent, reached }: {
    readonly path: string;
    readonly sent: Uint8Array<ArrayBuffer>;
    readonly reached: Uint8Array<ArrayBuffer>;
  },
  found: FoundEdits,
): Promise<void> {
  if (sent.length === reached.length && sent.every((byte, at) => byte === reached[at])) return;
  const before = readFields(sent);
  const after = readFields(reached);
  if (!before || !after) {
    // A body that is invalid where the gateway doesn't read it stays invalid, and is refused by the
    // upstream.
    assertEquals([before, after], [undefined, undefined]);
    return;
  }
  const added = Object.keys(after).filter((name) => !(name in before));
  if (before.stream === true && added[0] === "stream_options") {
    assertEquals(after.stream_options, { include_usage: true });
    added.shift();
  }
  assertEquals(added, []);
  for (const name of Object.keys(before)) {
    const [was, is] = [before[name], after[name]];
    if (name === "messages" && path === "/v1/messages") {
      const { system, tools, cache_control: whole } = before;
      const others = countBreakpoints(system) + countBreakpoints(tools) + (isFields(whole) ? 1 : 0);
      await checkMessages({ before: was, after: is, others }, found);
    } else if (name === "messages" || name === "input") await checkList(was, is, found);
    else if (name === "tools") checkTools(was, is, found);
    else if (name === "stream_options" && before.stream === true && isOptions(was) && !same(is, was)) {
      assertEquals({ ...was, include_usage: true }, is);
    } else assertEquals(is, was, `field ${name}`);
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reports whether a value is an object or `null`, which counts as absent. */
function isOptions(value: unknown): value is Fields | null {
  return value === null || isFields(value);
}

async function checkList(before: unknown, after: unknown, found: FoundEdits): Promise<void> {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  let [at, left, ingested] = [0, 0, 0];
  const leave = (item: unknown) => {
    assert(isStep(item), `what may not leave left: ${JSON.stringify(item)?.slice(0, 300)}`);
    left++;
  };
  for (const item of after) {
    if (!same(item, before[at]) && lineCount(item) > 0) {
      ingested += lineCount(item);
      found.dropped++;
      continue;
    }
    for (; at < before.length && !same(item, before[at]); at++) {
      const edit = await editOf(item, before[at]);
      if (edit) {
        found[edit]++;
        break;
      }
      leave(before[at]);
    }
    assert(at < before.length, `item that the client never sent: ${JSON.stringify(item)?.slice(0, 300)}`);
    at++;
  }
  before.slice(at).forEach(leave);
  assertEquals(left, ingested, "evicted items, and those that lines count");
}

/** Reports whether an item is a call or its result: other items are never evicted. */
function isStep(item: unknown): boolean {
  if (!isFields(item)) return false;
  if (typeof item.type === "string" && item.role === undefined) return true;
  return item.role === "tool" || (item.role === "assistant" && Array.isArray(item.tool_calls));
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

async function editOf(item: unknown, was: unknown): Promise<"elided" | "ingested" | undefined> {
  if (!isFields(item) || !isFields(was)) return undefined;
  const field = was.role === "tool" ? "content" : was.type === "function_call_output" ? "output" : undefined;
  if (!field || !same({ ...item, [field]: null }, { ...was, [field]: null })) return undefined;
  const [visible, original] = [String(item[field]), textOf(was[field])];
  const line = parsePlaceholder(visible.split("\n")[0] ?? "");
  if (!line) return isIngested(visible, original) ? "ingested" : undefined;
  return await archiveRef(original) === line.ref ? "elided" : undefined;
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return String(content);
  return content.map((part) => part.text ?? "").join("\n");
}

const DROPPED = /^\[elided: (\d+) messages; (?:recall with )?ref [0-9a-f]{16}\]/;

function lineCount(item: unknown): number {
  return isFields(item) && item.role === "user" ? Number(DROPPED.exec(textOf(item.content))?.[1] ?? 0) : 0;
}

function checkTools(before: unknown, after: unknown, found: FoundEdits): void {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  assert(after.length === before.length || after.length === before.length + 1, "tools were lost");
  const [added] = after.slice(before.length);
  if (added) assertEquals((added.function ?? added).name, RECALL_TOOL.function.name);
  // The remaining items are in order and unchanged; a cache breakpoint stays in place.
  const left = after.slice(0, before.length).map(withoutMark);
  for (const tool of before.map(withoutMark)) {
    const whole = left.findIndex((other) => sameData(other, tool));
    const compact = whole < 0 ? left.findIndex((other) => sameData(other, compactWire(tool))) : -1;
    if (compact >= 0) found.compacted++;
    assert(Math.max(whole, compact) >= 0, `a tool was lost: ${JSON.stringify(tool)}`);
    left.splice(Math.max(whole, compact), 1);
  }
}

function withoutMark(tool: Fields): Fields {
  if (!isFields(tool)) return tool;
  const { cache_control: _, ...rest } = tool;
  return rest;
}

/** Returns the compact form in the tool's own format: chat completions nest the function, responses don't. */
function compactWire(tool: Fields): unknown {
  if (isFields(tool.function)) return compactTool(tool as unknown as typeof RECALL_TOOL);
  const { type, name, parameters, input_schema: schema, ...rest } = tool;
  if (isFields(schema)) {
    const { description, ...more } = rest;
    const visible = { name, parameters: schema, ...(typeof description === "string" && { description }) };
    const full = { type: "function", function: visible } as unknown as typeof RECALL_TOOL;
    return {
      name,
      input_schema: compactTool(full).function.parameters,
      ...more,
      ...(type !== undefined && { type }),
    };
  }
  const { function: compact } = compactTool(
    { type, function: { name, parameters, ...rest } } as unknown as typeof RECALL_TOOL,
  );
  return { type, ...compact };
}
