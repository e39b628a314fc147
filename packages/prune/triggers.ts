import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import {
  ELIDING,
  type Elision,
  type PruneFailure,
  type PruneOptions,
  pruneResults,
} from "./prune_results.ts";
import {
  retainedTokens,
  type SummarizedTurns,
  summarizeTurns,
  type SummarizeTurnsOptions,
  type SummaryMessage,
} from "./summarize_turns.ts";

/** Options of {@linkcode pressure}. */
export interface PressureOptions {
  /** Tokens of one prompt; not usage summed over retries or steps. */
  readonly promptTokens: number;
  /** Context window of the model, in tokens. Default: no pressure. */
  readonly windowTokens?: number | undefined;
  /** Share of the window from which results are pruned. Default: 0.8. */
  readonly pruneAt?: number | undefined;
  /** Share of the window from which old turns are also summarized. Default: 0.9. */
  readonly summarizeAt?: number | undefined;
}

/**
 * Returns the action for the size of a prompt: none, pruning (with a summary only if that isn't enough), or
 * both.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { pressure } from "@tare/prune";
 *
 * assertEquals(pressure({ promptTokens: 850, windowTokens: 1000 }), "prune");
 * assertEquals(pressure({ promptTokens: 850 }), "none");
 * ```
 */
export function pressure(options: PressureOptions): "none" | "prune" | "summarize" {
  checkGiven("pressure()", { options }, {
    options: {
      promptTokens: "count",
      "windowTokens?": "positive",
      "pruneAt?": "share",
      "summarizeAt?": "share",
    } satisfies NeededOptions<PressureOptions>,
  });
  const { promptTokens, windowTokens = Infinity, pruneAt = 0.8, summarizeAt = 0.9 } = options;
  if (promptTokens >= summarizeAt * windowTokens) return "summarize";
  return promptTokens >= pruneAt * windowTokens ? "prune" : "none";
}

const ROOMY_SHARE = 0.6;

/** Options of {@linkcode relievePressure}. */
export interface RelievePressureOptions
  extends PruneOptions, SummarizeTurnsOptions, Omit<PressureOptions, "promptTokens"> {
  /** Counts the prompt for these messages, including tool definitions. Default: the messages alone. */
  readonly countPrompt?: (messages: readonly (Message | SummaryMessage)[]) => number;
}

/** Messages after the pressure is relieved, or a failure: check `failure` first. */
export type Relief<M extends Message> = (PruneFailure<M> | SummarizedTurns<M>) & {
  /** Results that were pruned, or archived before a failure, by index in the messages that were passed. */
  readonly elisions: readonly Elision[];
  /** True if only a summary could shrink the prompt enough and there is none: stop calling the model. */
  readonly paused: boolean;
};

/**
 * Prunes from `pruneAt` of the window, and summarizes if that isn't enough or the prompt had reached
 * `summarizeAt`. Does nothing below, or without a window. The prompt is counted from the messages.
 *
 * If user messages and tools fill much of the window, fewer recent turns than `keepTokens` are retained, so
 * that no second summary follows at once.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import type { Message } from "@tare/messages";
 * import { memoryArchive } from "@tare/prune";
 * import { relievePressure } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "log", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "x".repeat(5000) },
 *   { role: "assistant", content: "Green." },
 * ];
 * const options = { archive: memoryArchive(), windowTokens: 1500, protectTokens: 100 };
 * const relief = await relievePressure(messages, options);
 * assertEquals(relief.elisions.map(({ tool }) => tool), ["log"]);
 * ```
 */
export async function relievePressure<M extends Message>(
  messages: readonly M[],
  options: RelievePressureOptions,
): Promise<Relief<M>> {
  checkGiven("relievePressure()", { messages, options }, { messages: "messages", options: ELIDING });
  const { countTokens = estimateTokens, windowTokens = Infinity, pruneAt, summarizeAt } = options;
  const tokensOf = (messages: readonly (Message | SummaryMessage)[]) =>
    countRequestTokens({ messages }, countTokens);
  const { countPrompt = tokensOf } = options;
  const pressureOf = (messages: readonly (Message | SummaryMessage)[]) => {
    const promptTokens = countPrompt(messages);
    checkGiven("relievePressure()", { "the result of countPrompt": promptTokens }, {
      "the result of countPrompt": "count",
    });
    return pressure({ promptTokens, windowTokens, pruneAt, summarizeAt });
  };
  const tokensBefore = tokensOf(messages);
  const before = pressureOf(messages);
  if (before === "none") {
    return { messages, elisions: [], paused: false, tokensBefore, tokensAfter: tokensBefore };
  }

  const pruned = await pruneResults(messages, options);
  if (pruned.failure) return { ...pruned, elisions: [], paused: before === "summarize" };
  const after = pressureOf(pruned.messages);
  if (before !== "summarize" && after === "none") return { ...pruned, paused: false };
  const movable = pruned.messages.filter(({ role }) => role === "assistant" || role === "tool");
  const fixedTokens = countPrompt(pruned.messages) - tokensOf(movable);
  const room = Math.max(0, ROOMY_SHARE * windowTokens - fixedTokens);
  const keepTokens = options.keepTokens ?? Math.min(retainedTokens(windowTokens), room);
  const summarized = await summarizeTurns(pruned.messages, { ...options, keepTokens });
  const { elisions } = pruned;
  if (summarized.failure) {
    const { failure } = summarized;
    return { failure, unchanged: messages, elisions, paused: after === "summarize" };
  }
  return { ...summarized, elisions, paused: pressureOf(summarized.messages) === "summarize", tokensBefore };
}

/** Options of {@linkcode isColdResume}. */
export interface ColdResumeOptions {
  /** Time of its last successful request, not of its last save. Default: warm. */
  readonly lastUsedAtMs: number | undefined;
  readonly nowMs: number;
  /** Idle time after which the provider's cache has expired, in milliseconds. Default: 24 hours. */
  readonly cacheColdAfterMs?: number;
}

/**
 * Returns whether a conversation resumes after its cached prefix expired: its next request is uncached in any
 * case, so that pruning first costs nothing.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { isColdResume } from "@tare/prune";
 *
 * const cacheColdAfterMs = 3_600_000;
 * assertEquals(isColdResume({ lastUsedAtMs: 0, nowMs: 3_600_000, cacheColdAfterMs }), true);
 * ```
 */
export function isColdResume(options: ColdResumeOptions): boolean {
  checkGiven("isColdResume()", { options }, {
    options: { nowMs: "number", "lastUsedAtMs?": "number", "cacheColdAfterMs?": "count" },
  });
  const { lastUsedAtMs, nowMs, cacheColdAfterMs = 24 * 60 * 60 * 1000 } = options;
  return lastUsedAtMs !== undefined && nowMs - lastUsedAtMs >= cacheColdAfterMs;
}
