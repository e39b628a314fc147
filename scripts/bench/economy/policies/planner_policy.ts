import { plannerSession, type PromptSessionOptions } from "@tare/planner";
import { BY_AGE } from "../../../../packages/planner/retention/find_removals.ts";
import { memoryArchive } from "@tare/prune";
import type { Policy, PolicyOptions } from "./policy.ts";

/** The planner as it ships. */
export function asShipped(options: PolicyOptions): Policy {
  return plannerPolicy(options, {});
}

/** The planner with exactly the choices of the optimum: by age, never dropping turns, without a limit to its loss. */
export function byAge(options: PolicyOptions): Policy {
  return plannerPolicy(options, { retention: BY_AGE, lossLimit: Infinity });
}

/** A prompt session's policy. `recall` says whether the model can recall what left; it can by default. */
export function plannerPolicy(
  { profile, windowTokens, countTokens }: PolicyOptions,
  { recall = true, ...options }: Partial<PromptSessionOptions> & { readonly recall?: boolean },
): Policy {
  const session = plannerSession({
    profile,
    windowTokens,
    countTokens,
    archive: memoryArchive(),
    // Every policy is handed the results whole.
    mechanisms: { truncate: false },
    ...options,
  });
  return {
    view: (call) => session.view(call, { nowMs: call.nowMs, recall }),
    sent: (usage) => {
      session.sent(usage);
    },
  };
}
