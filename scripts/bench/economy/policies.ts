import { applyElisions } from "@tare/prune";
import {
  clearOver,
  maskAllBut,
  protect40k,
  resend,
  schemasEager,
  toolLoop,
  underPressure,
} from "./fixed_policies.ts";
import { optimum } from "./optimum.ts";
import { asShipped, byAge } from "./planner_policy.ts";
import type { MakePolicy, Policy, PolicyOptions } from "./policy.ts";

/** What the benchmark can replay, by name. */
export const POLICIES: Readonly<Record<string, MakePolicy>> = {
  resend,
  "tool-loop": toolLoop,
  pressure: underPressure,
  "schemas-eager": schemasEager,
  "clear-100k-keep-3": clearOver(100_000, 3),
  "clear-30k-keep-3": clearOver(30_000, 3),
  "mask-10": maskAllBut(10),
  "protect-40k": protect40k,
  planner: asShipped,
  "planner-age": byAge,
  optimum: clairvoyant,
};

/** Rewrites when {@linkcode optimum} says. */
async function clairvoyant(options: PolicyOptions): Promise<Policy> {
  const { rewrites, removable } = await optimum(options.recording, {
    ...options,
    protectTokens: 16_384,
  });
  const times = new Set(rewrites);
  let call = -1;
  let gone = 0;
  return {
    view({ messages, tools }) {
      call++;
      if (times.has(call)) gone = removable.filter(({ from }) => from <= call).length;
      const elisions = removable.slice(0, gone).map(({ elision }) => elision);
      return { messages: applyElisions(messages, elisions), tools };
    },
  };
}
