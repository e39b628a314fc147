import type { Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";

/**
 * A number of 53 bits that tells texts apart: two 32-bit FNV-1a hashes (Fowler, Noll, Vo) that start from
 * different offsets and step by different primes, joined. For caches and comparisons, not for security.
 */
export function hashText(text: string): number {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit, 0x85ebca6b);
    high ^= high >>> 15;
  }
  return (high & 0x1fffff) * 0x1_0000_0000 + (low >>> 0);
}

/**
 * Tells a message or a tool's definition from any other; the same for the same bytes, on any machine. It is
 * remembered for each object.
 *
 * @example
 * ```ts
 * import { assertEquals, assertNotEquals } from "@std/assert";
 * import { hashPiece } from "@tare/messages";
 *
 * const read = { type: "function", function: { name: "read", description: "Reads a file." } } as const;
 * assertEquals(hashPiece(structuredClone(read)), hashPiece(read));
 * assertNotEquals(hashPiece({ type: "function", function: { name: "read" } }), hashPiece(read));
 * ```
 */
export function hashPiece(piece: Message | ToolDefinition): number {
  let hash = hashes.get(piece);
  if (hash === undefined) hashes.set(piece, hash = hashText(JSON.stringify(piece)));
  return hash;
}

const hashes = new WeakMap<Message | ToolDefinition, number>();
