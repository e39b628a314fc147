import {
  compaction,
  type MakePolicy,
  type PlannerOptions,
  plannerPolicy,
  resend,
} from "@tare/simulator/economy";
import { BY_AGE } from "../../../packages/planner/retention/retention.ts";
import { clearOver } from "./clear_over.ts";
import { clairvoyant } from "./optimum.ts";

const PLANNERS: Readonly<Record<string, PlannerOptions>> = {
  planner: {},
  "planner-untruncated": { mechanisms: { truncate: false } },
  "planner-eager": { evict: "eager" },
  "planner-lossless": { evict: "lossless" },
  /** Choices of the optimum: eviction by age, no dropped turns, no loss limit, no truncation. */
  "planner-age": {
    advanced: { retention: BY_AGE, lossLimit: Infinity },
    mechanisms: { truncate: false, references: false, normalization: false },
  },
};

export const POLICIES: Readonly<Record<string, MakePolicy>> = {
  resend,
  "clear-100k-3": clearOver(100_000, 3),
  "clear-30k-3": clearOver(30_000, 3),
  "mask-10": clearOver(0, 10),
  compaction: compaction("cached"),
  "compaction-cold": compaction("cold"),
  ...Object.fromEntries(
    Object.entries(PLANNERS).map(([name, options]): [string, MakePolicy] => [
      name,
      (given) => plannerPolicy(given, options),
    ]),
  ),
  optimum: clairvoyant,
};

/** Returns a policy by name, and whether it offers the recall tool. */
export function policyNamed(name: string): { readonly make: MakePolicy; readonly recall: boolean } {
  const make = Object.hasOwn(POLICIES, name) ? POLICIES[name] : undefined;
  if (!make) {
    throw new RangeError(
      `Cannot run policy ${name}: it is unknown. Use ${Object.keys(POLICIES).join(", ")}.`,
    );
  }
  return { make, recall: name !== "resend" };
}
