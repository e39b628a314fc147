import {
  countMessageTokens,
  type CountTokens,
  countToolTokens,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { hashText } from "./hash_text.ts";
import type { PromptUnit } from "./prefix_cache.ts";

/**
 * A request as its provider's cache sees it: one unit for each tool, then one for each message. What is known of
 * an object is remembered, so that a growing conversation costs only what is new.
 */
export function promptUnits(
  { messages, tools }: { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] },
  countTokens: CountTokens,
): PromptUnit[] {
  return [
    ...tools.map((tool) => ({ hash: hashPiece(tool), tokens: countToolTokens(tool, countTokens) })),
    ...messages.map((message) => ({
      hash: hashPiece(message),
      tokens: countMessageTokens(message, countTokens),
    })),
  ];
}

/** Tells a message or tool from any other; the same for the same bytes, on any machine. */
export function hashPiece(piece: Message | ToolDefinition): number {
  let hash = hashes.get(piece);
  if (hash === undefined) hashes.set(piece, hash = hashText(JSON.stringify(piece)));
  return hash;
}

const hashes = new WeakMap<Message | ToolDefinition, number>();
