import { countMessageTokens, type CountTokens, meantCall, pairCalls } from "@tare/messages";
import { type Archive, resultText, truncateText } from "@tare/prune";
import type { ElideEdit } from "./edit.ts";
import type { History, PlacedMessages } from "./view.ts";

/** Shortest text that a result is cut to, in tokens. */
const LEAST_TOKENS = 64;

/**
 * Makes results that the model hasn't seen yet shorter, the longest first and to the same length, until so many tokens
 * are won or nothing more can be: they become head and tail. Those that hold more than text stay, and so do those that the
 * provider needs where they stand.
 *
 * @throws {Error} if one can't be archived.
 */
export async function cutNewest(
  history: History["messages"],
  { messages, places }: PlacedMessages,
  { neededTokens, countTokens, archive, recall }: {
    readonly neededTokens: number;
    readonly countTokens: CountTokens;
    readonly archive: Archive;
    readonly recall: boolean;
  },
): Promise<ElideEdit[]> {
  const newest = history.findLastIndex(({ role }) => role === "assistant");
  const shown = messages.flatMap((message, row) => {
    const index = places[row]!;
    const said = history[index];
    if (index < newest || message.role !== "tool" || said?.role !== "tool" || said.keep) return [];
    const original = resultText(said);
    if (original === undefined) return [];
    return [{
      index,
      original,
      toolCallId: said.tool_call_id,
      tokens: countMessageTokens(message, countTokens),
    }];
  });
  const limitTokens = commonLimit(shown.map(({ tokens }) => tokens), neededTokens);
  const edits: ElideEdit[] = [];
  for (const { index, original, toolCallId, tokens } of shown) {
    if (tokens <= limitTokens) continue;
    const ref = await archive.put(original).catch((cause) => {
      throw new Error(`Cannot archive a result: ${cause.message}`, { cause });
    });
    const call = pairCalls(history).find(({ answer }) => answer?.at === index)?.call;
    const text = truncateText(original, {
      tool: call ? meantCall(call).name : "tool",
      ref,
      countTokens,
      limitTokens,
      recall,
    });
    const isShorter =
      countMessageTokens({ role: "tool", tool_call_id: toolCallId, content: text }, countTokens) < tokens;
    if (isShorter) edits.push({ type: "elide", index, toolCallId, ref, text });
  }
  return edits;
}

/** The length to which the longest of some must shrink for so many tokens to be won. */
function commonLimit(tokens: readonly number[], neededTokens: number): number {
  const sorted = tokens.toSorted((a, b) => b - a);
  let won = 0;
  for (const [at, longest] of sorted.entries()) {
    const next = Math.max(LEAST_TOKENS, sorted[at + 1] ?? 0);
    if (longest <= next) continue;
    const step = (longest - next) * (at + 1);
    if (won + step >= neededTokens) return Math.floor(longest - (neededTokens - won) / (at + 1));
    won += step;
  }
  return LEAST_TOKENS;
}
