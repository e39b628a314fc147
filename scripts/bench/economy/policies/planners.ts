import {
  type CallPolicyOptions,
  type MakePolicy,
  type PlannerOptions,
  plannerPolicy,
} from "@tare/simulator/economy";
import { BY_AGE } from "../../../../packages/planner/retention/retention.ts";

/** The planner with other options than it ships with, by the policy's name: so each part of it can be measured. */
const VARIANTS: Readonly<Record<string, PlannerOptions>> = {
  /** Every result whole until it leaves. */
  "planner-untruncated": { mechanisms: { truncate: false } },
  /** Nothing but what is said once. */
  "planner-nothing": { forget: "nothing" },
  /** Nothing but letting go. */
  "planner-repeating": { mechanisms: { references: false, notation: false } },
  "planner-references": { mechanisms: { references: true } },
  "planner-no-references": { mechanisms: { references: false } },
  "planner-no-notation": { mechanisms: { notation: false } },
  /** Exactly the choices of the optimum: by age, never dropping turns, without a limit to its loss, results whole. */
  "planner-age": {
    retention: BY_AGE,
    lossLimit: Infinity,
    mechanisms: { truncate: false, references: false, notation: false },
  },
};

/** The planner as it ships, and its variants, by the policy's name. */
export const PLANNERS: Readonly<Record<string, MakePolicy>> = Object.fromEntries(
  Object.entries({ planner: {}, ...VARIANTS }).map(([name, options]) => [
    name,
    (given: CallPolicyOptions) => plannerPolicy(given, options),
  ]),
);
