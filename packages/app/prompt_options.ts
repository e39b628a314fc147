import type { PolicyOptions } from "@tare/planner/policies";
import type { Settings } from "./settings/settings.ts";

/** Returns the options of prompt sessions, the agent's and the gateway's, that these settings choose. */
export function promptOptions(settings: Settings): PolicyOptions {
  const { off, coldAfterMinutes } = settings;
  const { policy, forget, truncateTokens, alwaysFull } = settings;
  const { historyBudgetTokens, protectTokens, minBytes, pruneAt, summariseAt } = settings;
  return {
    policy,
    mechanisms: {
      context: !off.includes("context"),
      prune: !off.includes("prune"),
      schemas: !off.includes("schemas"),
      truncate: !off.includes("truncate"),
      ...(off.includes("references") && { references: false }),
      notation: !off.includes("notation"),
    },
    forget,
    truncateTokens,
    alwaysFull,
    triggers: {
      historyBudgetTokens,
      protectTokens,
      minBytes,
      pruneAt,
      summariseAt,
      ...(coldAfterMinutes !== undefined && { coldAfterMs: coldAfterMinutes * 60_000 }),
    },
  };
}
