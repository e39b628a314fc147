import { asRecord, isRecord, type JsonRecord } from "../json_record.ts";
import type { RawEvent } from "../sse_splitter.ts";

/** Puts the blocks of a streamed reply together, as they go back to the upstream: signatures and all. */
export class StreamedBlocks {
  readonly #blocks = new Map<unknown, Record<string, unknown>>();
  readonly #inputs = new Map<unknown, string>();

  /** Takes an event of the stream. */
  add({ type: event, index, content_block: begun, delta: more }: JsonRecord): void {
    if (event === "content_block_start" && isRecord(begun)) this.#blocks.set(index, { ...begun });
    const block = this.#blocks.get(index);
    const delta = asRecord(more);
    if (event !== "content_block_delta" || !block || !delta) return;
    const { type, partial_json: json, citation, ...fields } = delta;
    if (type === "input_json_delta") this.#inputs.set(index, this.inputOf(index) + String(json ?? ""));
    else if (citation !== undefined) block.citations = [...listOf(block.citations), citation];
    // Of a text, of thoughts: more of it. A signature comes whole.
    else for (const [name, value] of Object.entries(fields)) block[name] = added(block[name], value);
  }

  /** The input of a call as far as it was streamed, as the model wrote it; empty if none was. */
  inputOf(index: unknown): string {
    return this.#inputs.get(index) ?? "";
  }

  /** All blocks in order, each with its index. */
  get blocks(): readonly (readonly [index: number, block: JsonRecord])[] {
    return [...this.#blocks].map(([index, block]) => [Number(index), block] as const).sort(([a], [b]) =>
      a - b
    );
  }
}

/** The blocks of a reply whose stream had these events. */
export function readStreamedBlocks(events: readonly RawEvent[]): JsonRecord[] {
  const streamed = new StreamedBlocks();
  for (const { data } of events) {
    const event = asRecord(readJson(data));
    if (event) streamed.add(event);
  }
  return streamed.blocks.map(([index, block]) => {
    const input = streamed.inputOf(index);
    return input === "" ? block : { ...block, input: readJson(input) ?? {} };
  });
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
