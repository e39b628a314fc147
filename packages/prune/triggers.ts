import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { ELIDING, type Elision, prune, type PruneOptions } from "./prune_results.ts";
import {
  type applySummary,
  KEEP_SHARE,
  KEEP_TOKENS,
  summarise,
  type summariseTurns,
  type TurnsSummary,
} from "./summarise_turns.ts";

/**
 * What the window's fullness asks for: nothing, pruning (with a summary only if that wasn't enough), or both.
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
export function pressure(options: {
  /**
   * Tokens of one prompt. Usage summed over retries or over the steps of a turn is not the size of a prompt.
   */
  readonly promptTokens: number;
  /** Tokens of the model's context window. Unknown means that there is no pressure. */
  readonly windowTokens?: number | undefined;
  /** Share of the window from which on results are pruned. Default 0.8. */
  readonly pruneAt?: number;
  /** Share of the window from which on old turns are summarised as well. Default 0.9. */
  readonly summariseAt?: number;
}): "none" | "prune" | "summarise" {
  checkGiven("pressure()", { options }, {
    options: {
      promptTokens: "count",
      "windowTokens?": "positive",
      "pruneAt?": "share",
      "summariseAt?": "share",
    } satisfies NeededOptions<typeof options>,
  });
  const { promptTokens, windowTokens = Infinity, pruneAt = 0.8, summariseAt = 0.9 } = options;
  if (promptTokens >= summariseAt * windowTokens) return "summarise";
  return promptTokens >= pruneAt * windowTokens ? "prune" : "none";
}

/** A summary leaves the prompt at this share of the window if the newest turns are all that keeps it from that. */
const ROOMY_SHARE = 0.6;

/**
 * Acts on a full window: prunes from 0.8 of it on, and summarises if pruning didn't bring the prompt below that, or if it
 * had reached 0.9. Does nothing below, and nothing if the window is unknown. The prompt's size is counted from the
 * messages, so that neither retries nor sums of usage can mislead it.
 *
 * Where user messages and tools fill much of the window, fewer of the newest turns stay than `keepTokens` says by itself,
 * so that no second summary follows at once.
 */
export async function relievePressure<M extends Message>(
  messages: readonly M[],
  options:
    & PruneOptions
    & Parameters<typeof summariseTurns>[1]
    & Omit<Parameters<typeof pressure>[0], "promptTokens">
    & {
      /** Tokens of the prompt that is sent for these messages, tool definitions included. Default: those of the messages. */
      readonly countPrompt?: (messages: Readonly<ReturnType<typeof applySummary<Message>>>) => number;
    },
): Promise<
  | {
    readonly failure?: undefined;
    /** The messages; the very array that was handed in if nothing changed. */
    readonly messages: Readonly<ReturnType<typeof applySummary<M>>>;
    /** Results that were pruned, by their place in the messages that were handed in. */
    readonly elisions: readonly Elision[];
    /** What was summarised after pruning. */
    readonly summary?: TurnsSummary;
    /** True if the window is still so full that only a summary would do: stop calling the model. */
    readonly paused: boolean;
    /** Tokens of all the messages before. */
    readonly tokensBefore: number;
    /** Tokens of all the messages after. */
    readonly tokensAfter: number;
    /** Why there is no summary, though one was asked for; see {@linkcode summariseTurns}. */
    readonly summaryFailure?: Error;
  }
  | {
    /** Why originals could not be archived, so that nothing left the messages. */
    readonly failure: Error;
    /** The very array that was handed in: what to send if the session shall go on nevertheless. */
    readonly unchanged: readonly M[];
    /** Results that were archived before that; {@linkcode applyElisions} makes room by them. */
    readonly elisions: readonly Elision[];
    /** True if the window stays so full, even with `elisions`, that only a summary would do. */
    readonly paused: boolean;
  }
> {
  checkGiven("relievePressure()", { messages, options }, { messages: "messages", options: ELIDING });
  const { countTokens = estimateTokens } = options;
  const tokensOf = (messages: Readonly<ReturnType<typeof applySummary<Message>>>) =>
    countRequestTokens({ messages }, countTokens);
  const { countPrompt = tokensOf, windowTokens = Infinity, pruneAt, summariseAt } = options;
  const triggers = {
    windowTokens,
    ...(pruneAt !== undefined && { pruneAt }),
    ...(summariseAt !== undefined && { summariseAt }),
  };
  const pressureOf = (messages: Readonly<ReturnType<typeof applySummary<Message>>>) => {
    const promptTokens = countPrompt(messages);
    checkGiven("relievePressure()", { "what countPrompt gives": promptTokens }, {
      "what countPrompt gives": "count",
    });
    return pressure({ ...triggers, promptTokens });
  };
  const tokensBefore = tokensOf(messages);
  const before = pressureOf(messages);
  if (before === "none") {
    return { messages, elisions: [], paused: false, tokensBefore, tokensAfter: tokensBefore };
  }

  const pruned = await prune(messages, options);
  if (pruned.failure) return { ...pruned, elisions: [], paused: before === "summarise" };
  const after = pressureOf(pruned.messages);
  if (before !== "summarise" && after === "none") return { ...pruned, paused: false };
  const movable = pruned.messages.filter(({ role }) => role === "assistant" || role === "tool");
  const fixedTokens = countPrompt(pruned.messages) - tokensOf(movable);
  const room = Math.max(0, ROOMY_SHARE * windowTokens - fixedTokens);
  const keepTokens = options.keepTokens ?? Math.min(KEEP_TOKENS, KEEP_SHARE * windowTokens, room);
  const summarised = await summarise(pruned.messages, { ...options, keepTokens });
  const { elisions } = pruned;
  if (summarised.failure) {
    const { failure } = summarised;
    return { failure, unchanged: messages, elisions, paused: after === "summarise" };
  }
  return { ...summarised, elisions, paused: pressureOf(summarised.messages) === "summarise", tokensBefore };
}

/**
 * Whether a conversation is resumed so late that its cached prefix is gone: then its next request is read anew
 * anyway, and pruning it first costs nothing.
 */
export function isColdResume(options: {
  /** When its last successful request was made; not when it was last saved. Unknown counts as warm. */
  readonly lastUsedAtMs: number | undefined;
  readonly nowMs: number;
  /** Idle time after which the provider's cache is surely gone. Default 24 hours. */
  readonly cacheColdAfterMs?: number;
}): boolean {
  checkGiven("isColdResume()", { options }, {
    options: { nowMs: "number", "lastUsedAtMs?": "number", "cacheColdAfterMs?": "count" },
  });
  const { lastUsedAtMs, nowMs, cacheColdAfterMs = 24 * 60 * 60 * 1000 } = options;
  return lastUsedAtMs !== undefined && nowMs - lastUsedAtMs >= cacheColdAfterMs;
}
