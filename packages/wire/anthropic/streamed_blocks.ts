import { asRecord, isRecord, type JsonRecord } from "../json_record.ts";
import type { RawEvent } from "../sse_splitter.ts";

/** Puts the blocks of a streamed reply together, as they go back to the upstream: signatures and all. */
export function readStreamedBlocks(events: readonly RawEvent[]): JsonRecord[] {
  const blocks = new Map<unknown, Record<string, unknown>>();
  const inputs = new Map<unknown, string>();
  for (const { data: text } of events) {
    const data = asRecord(readJson(text));
    if (!data) continue;
    const { index, content_block: begun } = data;
    if (data.type === "content_block_start" && isRecord(begun)) blocks.set(index, { ...begun });
    const block = blocks.get(index);
    const delta = asRecord(data.delta);
    if (data.type !== "content_block_delta" || !block || !delta) continue;
    const { type, partial_json: json, citation, ...fields } = delta;
    if (type === "input_json_delta") inputs.set(index, (inputs.get(index) ?? "") + String(json ?? ""));
    else if (citation !== undefined) block.citations = [...listOf(block.citations), citation];
    // Of a text, of thoughts: more of it. A signature comes whole.
    else for (const [name, more] of Object.entries(fields)) block[name] = added(block[name], more);
  }
  for (const [index, input] of inputs) {
    const block = blocks.get(index);
    if (block) block.input = readJson(input) ?? {};
  }
  return [...blocks].sort(([a], [b]) => Number(a) - Number(b)).map(([, block]) => block);
}

function added(before: unknown, more: unknown): unknown {
  return typeof before === "string" && typeof more === "string" ? before + more : more;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function readJson(text: string | undefined): unknown {
  try {
    return text === undefined || text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
