import type { Arm } from "./play_tare.ts";
import { PROGRAMS } from "./worker.ts";

/** Tare as it is. */
export const PLANNED: Arm = { flags: [] };

/** The same in a window so small that long tasks don't fit into it. */
export const CROWDED: Arm = { flags: ["--window", "24000"] };

/** Tare with nothing pruned: each call resends all of its session. */
export const UNPRUNED: Arm = {
  flags: ["--policy", "lossless", "--without", "prune,truncate,references,notation"],
};

/** All that is done is done by programs that call the tools. */
export const PROGRAMMED: Arm = { flags: [], hands: PROGRAMS };

/** Triggers so low that nearly all leaves as soon as it may, and people's words of old turns with it. */
export const FORGETFUL: Arm = {
  flags: ["--policy", "classic", "--window", "100000", "--truncate-at", "1000"],
  triggers: { historyBudgetTokens: 500, protectTokens: 500, pruneAt: 0.03, summariseAt: 1 },
};
