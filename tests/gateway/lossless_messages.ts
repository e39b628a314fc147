import { assert, assertEquals } from "@std/assert";
import { parsePlaceholder } from "@tare/prune/internal";
import { archiveRef } from "@tare/prune";
import { isIngested } from "./ingested.ts";
import type { FoundEdits } from "./lossless.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Reply, or block of another message; normalized, without cache breakpoints. */
interface Unit {
  readonly role: unknown;
  readonly json: string;
  readonly block: Fields;
  readonly blocks: readonly unknown[];
  readonly isMarked: boolean;
}

const MAX_BREAKPOINTS = 4;

/**
 * Checks that the upstream received the client's Messages with only these edits: results replaced by a line
 * with their hash, steps by a line that counts them, and moved cache breakpoints.
 *
 * @param others The number of cache breakpoints elsewhere in the request.
 * @throws {AssertionError} if anything else differs.
 */
export async function checkMessages(
  { before, after, others }: { readonly before: unknown; readonly after: unknown; readonly others: number },
  found: FoundEdits,
): Promise<void> {
  if (!Array.isArray(before) || !Array.isArray(after)) return assertEquals(after, before);
  const [was, is] = [unitsOf(before), unitsOf(after)];
  let [at, left, ingested] = [0, 0, 0];
  /** Position of each unit in the request; for an evicted one, of its predecessor. */
  const places: { readonly at: number; readonly stays: boolean }[] = [];
  const leave = (unit: Unit | undefined) => {
    assert(unit && isStep(unit), `what may not leave left: ${unit?.json.slice(0, 300)}`);
    left++;
    places.push({ at: place - 1, stays: false });
  };
  let place = 0;
  for (; place < is.length; place++) {
    const unit = is[place]!;
    if (unit.json !== was[at]?.json && lineCount(unit) > 0) {
      ingested += lineCount(unit);
      found.dropped++;
      continue;
    }
    for (; at < was.length && unit.json !== was[at]?.json; at++) {
      const edit = await editOf(unit, was[at]!);
      if (edit) {
        found[edit]++;
        break;
      }
      leave(was[at]);
    }
    assert(at < was.length, `block that the client never sent: ${unit.json.slice(0, 300)}`);
    places.push({ at: place, stays: true });
    at++;
  }
  was.slice(at).forEach(leave);
  assertEquals(left, ingested, "evicted messages, and those that lines count");
  const breakpoints = (units: readonly Unit[]) => units.filter(({ isMarked }) => isMarked).length;
  const [had, has] = [breakpoints(was), breakpoints(is)];
  for (const [at, { isMarked }] of was.entries()) {
    const now = places[at]!;
    const holder = now.stays ? is[now.at] : is.slice(0, now.at + 1).findLast(canHaveMark);
    if (isMarked && holder) assert(holder.isMarked, `the mark of block ${at} is lost`);
  }
  if (had + others === 0) assertEquals(has, 0, "cache breakpoints that weren't requested");
  assert(has + others <= Math.max(MAX_BREAKPOINTS, had + others), `${has + others} marks`);
  if (was.at(-1)?.isMarked) assert(is.at(-1)?.isMarked, "the end has lost its mark");
}

function canHaveMark({ blocks }: Unit): boolean {
  return blocks.some((block) => {
    if (!isFields(block) || block.type === "thinking" || block.type === "redacted_thinking") return false;
    return block.type !== "text" || String(block.text).trim() !== "";
  });
}

export function countBreakpoints(list: unknown): number {
  return Array.isArray(list) ? list.filter(isMarked).length : 0;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isMarked(block: unknown): boolean {
  if (!isFields(block)) return false;
  return isFields(block.cache_control) ||
    (block.type === "tool_result" && countBreakpoints(block.content) > 0);
}

function unitsOf(list: readonly unknown[]): Unit[] {
  return list.flatMap((item) => {
    assert(isFields(item), "an item that is no message was changed");
    const { role, content, ...rest } = item;
    const blocks: readonly unknown[] = Array.isArray(content) ? content : [{ type: "text", text: content }];
    const unit = (value: readonly unknown[]): Unit => ({
      role,
      json: JSON.stringify([role, rest, value.map(plain)]),
      block: isFields(value[0]) ? value[0] : {},
      blocks: value,
      isMarked: value.some(isMarked),
    });
    return role === "assistant" || blocks.length === 0
      ? [unit(blocks)]
      : blocks.map((block) => unit([block]));
  });
}

function plain(block: unknown): unknown {
  if (!isFields(block)) return block;
  const { cache_control: mark, ...rest } = block;
  // Invalid cache breakpoints are ordinary content.
  return isFields(mark) ? rest : block;
}

function isStep({ role, json, block }: Unit): boolean {
  return role === "assistant" ? json.includes('"type":"tool_use"') : block.type === "tool_result";
}

async function editOf({ block, json }: Unit, was: Unit): Promise<"elided" | "ingested" | undefined> {
  if (block.type !== "tool_result" || was.block.type !== "tool_result") return undefined;
  const without = (text: string, content: unknown) => text.replace(JSON.stringify(content), () => "null");
  if (without(json, block.content) !== without(was.json, was.block.content)) return undefined;
  const [visible, original] = [String(block.content), textOf(was.block.content)];
  const line = parsePlaceholder(visible.split("\n")[0] ?? "");
  if (!line) return isIngested(visible, original) ? "ingested" : undefined;
  return await archiveRef(original) === line.ref ? "elided" : undefined;
}

function textOf(content: unknown): string {
  if (!Array.isArray(content)) return String(content);
  return content.map(({ text = "" }) => text).join("\n");
}

const DROPPED = /^\[elided: (\d+) messages; (?:recall with )?ref [0-9a-f]{16}\]/;

function lineCount({ role, block }: Unit): number {
  return role === "user" ? Number(DROPPED.exec(String(block.text))?.[1] ?? 0) : 0;
}
