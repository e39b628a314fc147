import type { CountTokens, Message, ToolCall } from "@tare/messages";
import { archiveRef, RECALL_TOOL } from "@tare/prune";
import { messageTexts } from "./needs.ts";
import type { Lost } from "./sight.ts";

export const REFETCH_TOKENS = 7_000;

/** Returns a recall of the lost content from `bearers` (newest first), at most {@linkcode REFETCH_TOKENS} tokens. */
export async function repair(
  bearers: readonly Message[],
  { lost, number, countTokens }: {
    readonly lost: Lost;
    readonly number: number;
    readonly countTokens: CountTokens;
  },
): Promise<Message[]> {
  const calls: ToolCall[] = [];
  const results: Message[] = [];
  let left = REFETCH_TOKENS;
  for (const [at, bearer] of bearers.entries()) {
    const original = messageTexts(bearer).filter((text) => text !== "").join("\n");
    const content = shorten(original, { lost, tokens: left, countTokens });
    left -= countTokens(content);
    const id = `repair-${number}-${at}`;
    const args = JSON.stringify({ ref: await archiveRef(original) });
    calls.push({ id, type: "function", function: { name: RECALL_TOOL.function.name, arguments: args } });
    results.push({ role: "tool", tool_call_id: id, content });
    if (left <= 0) break;
  }
  return [{ role: "assistant", tool_calls: calls }, ...results];
}

function shorten(
  text: string,
  { lost, tokens, countTokens }: {
    readonly lost: Lost;
    readonly tokens: number;
    readonly countTokens: CountTokens;
  },
): string {
  const all = countTokens(text);
  if (all <= tokens) return text;
  const needed = [...lost.lines, ...lost.names].join("\n");
  const room = Math.max(0, tokens - countTokens(needed));
  return `${text.slice(0, Math.floor(text.length * room / all))}\n${needed}`;
}
