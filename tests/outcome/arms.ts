import type { Arm } from "./play_tare.ts";
import { PROGRAMS } from "./worker.ts";

/** Tare as it is. */
export const PLANNED: Arm = { flags: [] };

/** The same in a window so small that long tasks don't fit into it. */
export const CROWDED: Arm = { flags: ["--window", "24000"] };

/** Tare with nothing pruned: each call resends all of its session. */
export const UNPRUNED: Arm = {
  flags: ["--forget", "nothing", "--no-prune", "--no-truncate", "--no-references", "--no-notation"],
};

/** All that is done is done by programs that call the tools. */
export const PROGRAMMED: Arm = { flags: [], hands: PROGRAMS };

/** Triggers so low that nearly all leaves as soon as it may, and people's words of old turns with it. */
export const FORGETFUL: Arm = {
  flags: Object.entries({
    policy: "classic",
    window: 100_000,
    "truncate-at": 1_000,
    "history-budget": 500,
    "protected-tail": 500,
    "prune-at": 0.03,
    "summarise-at": 1,
  }).flatMap(([name, value]) => [`--${name}`, `${value}`]),
};
