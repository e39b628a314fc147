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

/** Finds the original of what was elided, by its reference. */
export type FindOriginal = (ref: string) => Promise<string | undefined>;

/** How many edits of each kind were found. */
export interface FoundEdits {
  elided: number;
  dropped: number;
  compacted: number;
}

/**
 * Checks that what reached the upstream is what the client sent but for edits whose originals can be found again.
 *
 * @throws {AssertionError} if anything else differs.
 */
export async function checkLossless(
  { sent, reached }: { readonly sent: Uint8Array<ArrayBuffer>; readonly reached: Uint8Array<ArrayBuffer> },
  { findOriginal, found }: { readonly findOriginal: FindOriginal; readonly found: FoundEdits },
): Promise<void> {
  if (sent.length === reached.length && sent.every((byte, at) => byte === reached[at])) return;
  const before = readLossless(new TextDecoder().decode(sent)) as Fields;
  const after = readLossless(new TextDecoder().decode(reached)) as Fields;
  assertEquals(Object.keys(after).filter((name) => !(name in before)), addedNames(before, after));
  for (const name of Object.keys(before)) {
    const [was, is] = [before[name], after[name]];
    if (name === "messages" || name === "input") await checkList(was, is, { findOriginal, found });
    else if (name === "tools") checkTools(was, is, found);
    else if (name === "stream_options" && before.stream === true && isFields(was)) {
      assertEquals({ ...was, include_usage: true }, is);
    } else assertEquals(is, was, `field ${name}`);
  }
}

function addedNames({ stream }: Fields, after: Fields): string[] {
  const usage = after.stream_options as Fields | undefined;
  return stream === true && usage?.include_usage === true && Object.keys(usage).length === 1
    ? ["stream_options"]
    : [];
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

async function checkList(
  before: unknown,
  after: unknown,
  { findOriginal, found }: { readonly findOriginal: FindOriginal; readonly found: FoundEdits },
): Promise<void> {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  let at = 0;
  for (const item of after) {
    const was: unknown = before[at];
    if (same(item, was)) at++;
    else if (await isElided(item, was, findOriginal)) {
      at++;
      found.elided++;
    } else at = await skipDropped(item, { before, at, findOriginal, found });
  }
  assertEquals(at, before.length, "items that were lost");
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

async function isElided(item: unknown, was: unknown, findOriginal: FindOriginal): Promise<boolean> {
  if (!isFields(item) || !isFields(was)) return false;
  const field = was.role === "tool" ? "content" : was.type === "function_call_output" ? "output" : undefined;
  if (!field || !same({ ...item, [field]: null }, { ...was, [field]: null })) return false;
  const line = parsePlaceholder(String(item[field]).split("\n")[0] ?? "");
  if (!line) return false;
  const original = await findOriginal(line.ref);
  const text = textOf(was[field]);
  assertEquals(original, text, "the archived original");
  return await archiveRef(text) === line.ref;
}

/** Parts that are no text are named in the archived text by their JSON or a note: only texts are compared. */
function textOf(content: unknown): string {
  if (!Array.isArray(content)) return String(content);
  return content.map((part) => part.text ?? "").join("");
}

const DROPPED = /^\[elided: (\d+) messages; (?:recall with )?ref ([0-9a-f]{16})\]/;

async function skipDropped(
  item: unknown,
  { before, at, findOriginal, found }: {
    readonly before: readonly unknown[];
    readonly at: number;
    readonly findOriginal: FindOriginal;
    readonly found: FoundEdits;
  },
): Promise<number> {
  const text = isFields(item) ? textOf(item.content) : "";
  const [, count, ref] = DROPPED.exec(text) ?? [];
  assert(ref !== undefined, `item that the client never sent: ${JSON.stringify(item)?.slice(0, 300)}`);
  assert(await findOriginal(ref) !== undefined, `no original of ${text.slice(0, 100)}`);
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
