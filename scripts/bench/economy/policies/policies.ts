import { compaction, type MakePolicy, resend } from "@tare/simulator/economy";
import {
  clearOver,
  maskAllBut,
  protect40k,
  schemasEager,
  toolLoop,
  underPressure,
} from "./fixed_policies.ts";
import { clairvoyant } from "./optimum.ts";
import { PLANNERS } from "./planners.ts";

/** What the benchmark can play, by name. */
export const POLICIES: Readonly<Record<string, MakePolicy>> = {
  resend,
  "tool-loop": toolLoop,
  pressure: underPressure,
  "schemas-eager": schemasEager,
  "clear-100k-3": clearOver(100_000, 3),
  "clear-30k-3": clearOver(30_000, 3),
  "mask-10": maskAllBut(10),
  "protect-40k": protect40k,
  compaction: compaction("cached"),
  "compaction-cold": compaction("cold"),
  ...PLANNERS,
  optimum: clairvoyant,
};

/** Policies that offer the model no recall, since nothing of theirs can be recalled. */
const WITHOUT_RECALL = new Set(["resend", "schemas-eager"]);

/** The policy of this name, and whether it offers the recall tool. */
export function policyNamed(name: string): { readonly make: MakePolicy; readonly recall: boolean } {
  const make = Object.hasOwn(POLICIES, name) ? POLICIES[name] : undefined;
  if (!make) {
    throw new RangeError(`Cannot play policy ${name}: it is none of ${Object.keys(POLICIES).join(", ")}`);
  }
  return { make, recall: !WITHOUT_RECALL.has(name) };
}
