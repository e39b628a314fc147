import { BY_AGE, type Edit, type Plan, Planner, type PlannerOptions, view } from "@tare/planner";
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

/** A planner's policy. `change` may replace the new edits of a plan before they are made. */
export function plannerPolicy(
  { recording, profile, windowTokens, countTokens }: PolicyOptions,
  options: Partial<PlannerOptions>,
  change: (plan: Plan) => readonly Edit[] = ({ edits }) => edits,
): Policy {
  const planner = new Planner({
    profile,
    windowTokens,
    countTokens,
    archive: memoryArchive(),
    recall: true,
    isError: (_, index) => recording.errors.has(index),
    ...options,
  });
  const edits: Edit[] = [];
  let plan: Plan | undefined;
  return {
    async view(call) {
      plan = await planner.plan({ ...call, edits });
      const added = change(plan);
      if (added !== plan.edits) plan = { ...plan, edits: added, view: view(call, [...edits, ...added]) };
      edits.push(...added);
      return plan.view;
    },
    sent(usage) {
      if (plan) planner.sent(plan, usage);
    },
  };
}
