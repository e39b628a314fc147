import type { Arm } from "./play_tare.ts";
import { PROGRAMS } from "./worker.ts";

export const PLANNED: Arm = { flags: [] };

export const CROWDED: Arm = { flags: ["--window", "24000"] };

/** Tare without pruning: each call sends its whole session. */
export const UNPRUNED: Arm = {
  flags: ["--policy", "lossless", "--without", "prune,truncate,references,normalization"],
};

/** Tare in code mode. */
export const PROGRAMMED: Arm = { flags: [], hands: PROGRAMS };

/**
 * Aggressive triggers: nearly everything is evicted as soon as possible, including users' texts of old
 * turns.
 */
export const FORGETFUL: Arm = {
  flags: ["--policy", "classic", "--window", "100000", "--truncate-at", "1000"],
  triggers: { historyBudgetTokens: 500, protectTokens: 500, pruneAt: 0.03, summarizeAt: 1 },
};
