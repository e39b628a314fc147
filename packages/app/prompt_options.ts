import type { PolicyOptions } from "@tare/planner/policies";
import type { Settings } from "./settings/settings.ts";

/** Returns the options of prompt sessions, the agent's and the gateway's. `triggers` are those of classic sessions. */
export function promptOptions(
  { policy, off, truncateTokens }: Pick<Settings, "policy" | "off" | "truncateTokens">,
  triggers: PolicyOptions["triggers"] = {},
): PolicyOptions {
  return {
    policy: policy === "classic" ? "classic" : "planner",
    mechanisms: {
      context: !off.includes("context"),
      prune: !off.includes("prune"),
      schemas: !off.includes("schemas"),
      truncate: !off.includes("truncate"),
      ...(off.includes("references") && { references: false }),
      notation: !off.includes("notation"),
    },
    forget: policy === "lossless" ? "nothing" : "costly",
    truncateTokens,
    triggers,
  };
}
