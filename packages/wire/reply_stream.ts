import { GrowingBytes, splitEvents } from "./sse.ts";

/** Bytes of a stream that are kept to count what it says; what comes behind is taken for as dense. */
const COUNTED_BYTES = 2 ** 22;

/** Fields of a delta that hold nothing that a model has written. */
const UNWRITTEN: readonly string[] = ["type", "role", "id", "signature"];

/** What a streamed reply says, in any protocol: kept as it came, and read only if its usage is never reported. */
export class StreamedText {
  readonly #events = new GrowingBytes();
  #bytes = 0;

  /** Adds whole events. */
  add(bytes: Uint8Array<ArrayBuffer>): void {
    this.#bytes += bytes.length;
    if (this.#events.length < COUNTED_BYTES) this.#events.add(bytes);
  }

  /** Returns how many tokens it has, estimated. */
  count(countTokens: (text: string) => number): number {
    const events = this.#events.take();
    const text = splitEvents(events).flatMap(({ data }) => data === undefined ? [] : writtenIn(data)).join(
      "",
    );
    const tokens = text === "" ? 0 : countTokens(text);
    const all = Math.ceil(tokens * this.#bytes / Math.max(1, events.length));
    this.#bytes = 0;
    return all;
  }
}

function writtenIn(data: string): string[] {
  const written: string[] = [];
  try {
    collectDeltas(JSON.parse(data), written);
  } catch {
    // An end mark, or an event that broke off.
  }
  return written;
}

function collectDeltas(value: unknown, written: string[]): void {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (key === "delta") collectWritten(inner, written);
    else collectDeltas(inner, written);
  }
}

function collectWritten(value: unknown, written: string[]): void {
  if (typeof value === "string") written.push(value);
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (!UNWRITTEN.includes(key) && !key.endsWith("_reason")) collectWritten(inner, written);
  }
}

/** Most calls of tools in one reply: models make some tens. */
export const MAX_CALLS = 256;

/** A reply is longer than it may be. Its message says by which limit, as a sentence goes on: `its stream has more than …`. */
export class ReplyTooLong extends Error {
  /** Always `ReplyTooLong`. */
  override readonly name = "ReplyTooLong";
}
