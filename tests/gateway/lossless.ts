import { assert, assertEquals } from "@std/assert";
import { archiveRef, parsePlaceholder, RECALL_TOOL } from "@tare/prune";
import { compactTool } from "@tare/schemas";

type Fields = Readonly<Record<string, unknown>>;

/** Reads JSON without losing anything of its numbers: each is the text that it is written as. */
function readLossless(text: string): unknown {
  return JSON.parse(
    text,
    // What TypeScript's types don't know yet: the source of a primitive value.
    (_, value, ...[context]: [{ readonly source?: string }?]) =>
      typeof value === "number" ? { number: context?.source } : value,
  );
}

function readFields(body: Uint8Array<ArrayBuffer>): Fields | undefined {
  try {
    return readLossless(new TextDecoder("utf-8", { fatal: true }).decode(body)) as Fields;
  } catch {
    return undefined;
  }
}

/** How many edits of each kind were found. */
export interface FoundEdits {
  elided: number;
  dropped: number;
  compacted: number;
}

/**
 * Checks that what reached the upstream is what the client sent but for edits: results that gave way to a line with the
 * hash of just this text, old turns that gave way to a line that counts them, tools in their compact form.
 *
 * @throws {AssertionError} if anything else differs.
 */
export async function checkLossless(
  { sent, reached }: { readonly sent: Uint8Array<ArrayBuffer>; readonly reached: Uint8Array<ArrayBuffer> },
  found: FoundEdits,
): Promise<void> {
  if (sent.length === reached.length && sent.every((byte, at) => byte === reached[at])) return;
  const before = readFields(sent);
  const after = readFields(reached);
  if (!before || !after) {
    // A body that is broken where the gateway doesn't look is still broken, and refused by the upstream.
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
    if (name === "messages" || name === "input") await checkList(was, is, found);
    else if (name === "tools") checkTools(was, is, found);
    else if (name === "stream_options" && before.stream === true && isFields(was) && !same(is, was)) {
      assertEquals({ ...was, include_usage: true }, is);
    } else assertEquals(is, was, `field ${name}`);
  }
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

async function checkList(
  before: unknown,
  after: unknown,
  found: FoundEdits,
): Promise<void> {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  let at = 0;
  for (const item of after) {
    const was: unknown = before[at];
    if (same(item, was)) at++;
    else if (await isElided(item, was)) {
      at++;
      found.elided++;
    } else at = skipDropped(item, { before, at, found });
  }
  assertEquals(at, before.length, "items that were lost");
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

async function isElided(item: unknown, was: unknown): Promise<boolean> {
  if (!isFields(item) || !isFields(was)) return false;
  const field = was.role === "tool" ? "content" : was.type === "function_call_output" ? "output" : undefined;
  if (!field || !same({ ...item, [field]: null }, { ...was, [field]: null })) return false;
  const line = parsePlaceholder(String(item[field]).split("\n")[0] ?? "");
  if (!line) return false;
  return await archiveRef(textOf(was[field])) === line.ref;
}

/** Parts that are no text are named in the archived text by their JSON or a note: only texts are compared. */
function textOf(content: unknown): string {
  if (!Array.isArray(content)) return String(content);
  return content.map((part) => part.text ?? "").join("");
}

const DROPPED = /^\[elided: (\d+) messages; (?:recall with )?ref [0-9a-f]{16}\]/;

function skipDropped(
  item: unknown,
  { before, at, found }: {
    readonly before: readonly unknown[];
    readonly at: number;
    readonly found: FoundEdits;
  },
): number {
  const text = isFields(item) ? textOf(item.content) : "";
  const [, count] = DROPPED.exec(text) ?? [];
  assert(count !== undefined, `item that the client never sent: ${JSON.stringify(item)?.slice(0, 300)}`);
  found.dropped++;
  const kept = before.slice(at, at + Number(count)).filter((item) =>
    isFields(item) && (item.role === "system" || item.role === "developer")
  );
  assertEquals(kept, [], "instructions that were dropped");
  return at + Number(count);
}

function checkTools(before: unknown, after: unknown, found: FoundEdits): void {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  assert(after.length === before.length || after.length === before.length + 1, "tools were lost");
  for (const [at, tool] of before.entries()) {
    if (same(tool, after[at])) continue;
    assertEquals(after[at], compactWire(tool));
    found.compacted++;
  }
  const added = after[before.length];
  if (added) assertEquals((added.function ?? added).name, RECALL_TOOL.function.name);
}

/** The compact form in the format in which the tool was written: chat completions nest the function, responses don't. */
function compactWire(tool: Fields): unknown {
  if (isFields(tool.function)) return compactTool(tool as unknown as typeof RECALL_TOOL);
  const { type, name, parameters, ...rest } = tool;
  const { function: compact } = compactTool(
    { type, function: { name, parameters, ...rest } } as unknown as typeof RECALL_TOOL,
  );
  return { type, ...compact };
}
