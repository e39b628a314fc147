import type { AdvancedSessionOptions } from "./prompt_session.ts";

/** How a client compacts a conversation that its window can't hold: one call for a summary, from which it continues. */
export type CompactionHabit = NonNullable<AdvancedSessionOptions["compaction"]>;

/** What is taken for a client's habit of which nothing is known: the cheapest of those that were seen. */
export const USUAL_COMPACTION: CompactionHabit = { keepsFront: true };

/** Keeps the newest messages and sends the rest as a transcript, a judgement of 4 characters for each token. */
const BY_TRANSCRIPT = { resultChars: 2_000, keepsFront: true } as const;

/** Sends the whole prompt, and goes on from what people said and a summary that the provider seals. */
const SEALED: CompactionHabit = { fullFrom: (windowTokens) => 0.9 * windowTokens, keepsFront: true };

/**
 * How agents compact a conversation that their window doesn't hold, by the name with which they ask. Each was seen at work in
 * windows of 60,000, 100,000 and 200,000 tokens in autumn 2026.
 */
const HABITS: Readonly<Record<string, CompactionHabit>> = {
  pi: {
    ...BY_TRANSCRIPT,
    fullFrom: (windowTokens) => windowTokens - 16_384,
    keptChars: () => 4 * 20_000,
  },
  opencode: {
    ...BY_TRANSCRIPT,
    fullFrom: (windowTokens, replyTokens = Infinity) => windowTokens - Math.min(replyTokens, 32_000),
    isLate: true,
    keptChars: (fullFrom) => 4 * Math.min(15_000, fullFrom / 4),
  },
  codex_exec: SEALED,
  codex_cli_rs: SEALED,
  QwenCode: {
    // Room for a summary and for what else comes; of a window that is no larger, a share.
    fullFrom: (windowTokens) =>
      Math.min(0.85 * windowTokens, windowTokens > 33_000 ? windowTokens - 33_000 : Infinity),
    keptTokens: 2_300,
    keepsFront: true,
  },
  "claude-cli": {
    // A smaller window it learns from the provider, which refuses what is too long.
    fullFrom: (windowTokens) => windowTokens < 100_000 ? windowTokens : windowTokens - 33_000,
    keptTokens: 10_000,
    keepsFront: false,
  },
};

/**
 * Returns how an agent compacts a conversation that its window doesn't hold, by its client name; `undefined` if unknown.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { compactionOf } from "@tare/planner/internal";
 *
 * assertEquals(compactionOf("pi")?.fullFrom?.(100_000, undefined), 83_616);
 * assertEquals(compactionOf("another"), undefined);
 * ```
 */
export function compactionOf(agent: string): CompactionHabit | undefined {
  return Object.hasOwn(HABITS, agent) ? HABITS[agent] : undefined;
}
