import {
  countMessageTokens,
  type CountTokens,
  countToolTokens,
  hashPiece,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
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
