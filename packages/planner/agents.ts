import type { AdvancedSessionOptions } from "./prompt_session.ts";

/**
 * A client's compaction of a conversation that exceeds its window: one call for a summary, with which it
 * continues.
 */
export type CompactionHabit = NonNullable<AdvancedSessionOptions["compaction"]>;

/** Sends the whole prompt, and continues with the user messages and a sealed summary. */
const SEALED: CompactionHabit = { fullFrom: (windowTokens) => 0.9 * windowTokens, keepsFront: true };

/** Compaction by client name. Observed in windows of 60,000, 100,000 and 200,000 tokens in autumn 2026. */
const HABITS: Readonly<Record<string, CompactionHabit>> = {
  // Keeps the newest messages and summarizes a transcript of the rest; estimates 4 characters per token.
  pi: {
    resultChars: 2_000,
    keepsFront: true,
    fullFrom: (windowTokens) => windowTokens - 16_384,
    retainedChars: () => 4 * 20_000,
  },
  // As pi.
  opencode: {
    resultChars: 2_000,
    keepsFront: true,
    fullFrom: (windowTokens, replyTokens = Infinity) => windowTokens - Math.min(replyTokens, 32_000),
    isLate: true,
    retainedChars: (fullFrom) => 4 * Math.min(15_000, fullFrom / 4),
  },
  codex_exec: SEALED,
  codex_cli_rs: SEALED,
  QwenCode: {
    // Reserve for a summary; in smaller windows a share.
    fullFrom: (windowTokens) =>
      Math.min(0.85 * windowTokens, windowTokens > 33_000 ? windowTokens - 33_000 : Infinity),
    retainedTokens: 2_300,
    keepsFront: true,
  },
  "claude-cli": {
    // It knows its models' windows and assumes 100,000 tokens for others. A smaller window is learned from the
    // provider's refusal.
    fullFrom: (windowTokens, _, listedTokens = 100_000) =>
      windowTokens < listedTokens ? windowTokens : windowTokens - 33_000,
    retainedTokens: 11_000,
    keepsFront: false,
  },
};

/**
 * Returns the compaction of an agent by its client name; `undefined` if unknown.
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
