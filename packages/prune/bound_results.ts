import { countMessageTokens, type Message, MESSAGE_OVERHEAD_TOKENS } from "@tare/messages";
import type { Elision } from "./apply_elisions.ts";
import { BOUND_TOKENS, boundText } from "./bound_text.ts";
import { archiveResult, type ElideOptions } from "./elide.ts";
import { type PairedResult, pairResults, resultText } from "./pair_results.ts";
import { type PruneResult, settleElisions } from "./prune_results.ts";
import { traitsOf } from "./select_elisions.ts";

/** How long a new result may be, and where the originals go. */
export interface BoundOptions extends ElideOptions {
  /** Longest text of a result, in tokens. Default 8,000. */
  readonly limitTokens?: number;
}

/**
 * Bounds the tool results that were not sent yet (those behind the last assistant message): one that is over the
 * limit is archived whole and gives way to its head, a placeholder and its tail. Done before every request, it
 * never changes what a request has already held, so it costs nothing in a provider's cache. Results of tools whose
 * stance is `keep`, and results that hold more than text, stay.
 *
 * @example
 * ```ts
 * import { assert, assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { boundResults, memoryArchive } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Show the log." },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "a line of the log\n".repeat(10_000) },
 * ];
 * const bounded = await boundResults(messages, { archive: memoryArchive(), countTokens: estimateTokens });
 * assertEquals(bounded.elisions.length, 1);
 * assert(bounded.tokensAfter < 8100);
 * ```
 */
export async function boundResults<M extends Message>(
  messages: readonly M[],
  options: BoundOptions,
): Promise<PruneResult<M>> {
  const { countTokens } = options;
  return await settleElisions(messages, { elisions: bound(messages, options), countTokens });
}

async function bound(messages: readonly Message[], options: BoundOptions): Promise<Elision[]> {
  const { archive, countTokens, limitTokens = BOUND_TOKENS, recall = false } = options;
  const elisions: Elision[] = [];
  for (const { index, message, call } of newResults(messages)) {
    const { tool } = call;
    const { stance = "once" } = traitsOf(tool, options);
    const tokensBefore = countMessageTokens(message, countTokens);
    const original = resultText(message);
    if (stance === "keep" || original === undefined) continue;
    if (tokensBefore - MESSAGE_OVERHEAD_TOKENS <= limitTokens) continue;
    const ref = await archiveResult(original, { archive, tool });
    const text = boundText(original, { tool, ref, countTokens, limitTokens, recall, stance });
    const tokensAfter = countMessageTokens({ ...message, content: text }, countTokens);
    elisions.push({
      index,
      toolCallId: message.tool_call_id,
      tool,
      ref,
      text,
      tokensBefore,
      tokensAfter,
      reason: "bound",
    });
  }
  return elisions;
}

/** The results that no request held yet. */
function newResults(messages: readonly Message[]): PairedResult[] {
  const from = Math.max(0, messages.findLastIndex((message) => message.role === "assistant"));
  return pairResults(messages.slice(from)).map((one) => ({ ...one, index: from + one.index }));
}
