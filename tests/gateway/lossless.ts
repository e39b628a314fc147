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

async function checkList(before: unknown, after: unknown, found: FoundEdits): Promise<void> {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  let at = 0;
  for (let seen = 0; seen < after.length; seen++) {
    if (same(after[seen], before[at])) at++;
    else if (await isElided(after[seen], before[at])) {
      at++;
      found.elided++;
    } else {
      const dropped = await findDropped({ before: before.slice(at), after: after.slice(seen) });
      assert(dropped, `item that the client never sent: ${JSON.stringify(after[seen])?.slice(0, 300)}`);
      at += dropped.items;
      seen += dropped.stayed;
      found.dropped++;
    }
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

/**
 * Old turns may have left that stood here: then the instructions among them stay, behind these comes a line that counts
 * the messages, and behind the line the list goes on, perhaps with the next turns that left. Gives how many items left
 * and how many stand in their place before the last line.
 */
async function findDropped(
  { before, after }: { readonly before: readonly unknown[]; readonly after: readonly unknown[] },
): Promise<{ readonly items: number; readonly stayed: number } | undefined> {
  const end = after.findIndex((item) => !isInstruction(item) && !lineCount(item));
  const run = after.slice(0, end < 0 ? after.length : end);
  const last = run.findLastIndex(lineCount);
  if (last < 0) return undefined;
  const instructions = run.slice(0, last).filter(isInstruction);
  const most = run.reduce((sum: number, item) => sum + lineCount(item), instructions.length);
  const next = after[last + 1];
  for (let items = 1; items <= Math.min(most, before.length); items++) {
    const goesOn = next === undefined
      ? items === before.length
      : same(next, before[items]) || await isElided(next, before[items]);
    if (goesOn && same(before.slice(0, items).filter(isInstruction), instructions)) {
      return { items, stayed: last };
    }
  }
  return undefined;
}

/** The messages that a line stands for; 0 if it is no such line. */
function lineCount(item: unknown): number {
  return isFields(item) && item.role === "user" ? Number(DROPPED.exec(textOf(item.content))?.[1] ?? 0) : 0;
}

function isInstruction(item: unknown): boolean {
  return isFields(item) && (item.role === "system" || item.role === "developer");
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
