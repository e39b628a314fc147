import { plannerSession, type PromptSessionOptions } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import type { ClientTrial } from "../warmth/warmer.ts";
import type { CallPolicy, CallPolicyOptions } from "./policy.ts";

/** What a planner's policy is made with beside what every policy is handed. */
export interface PlannerOptions extends Partial<PromptSessionOptions> {
  /** Whether the model can recall what left. Default: yes, also where `--bare` leaves the tool out of the prompt. */
  readonly recall?: boolean;
  /** Keeps the session warm, and learns from it what upgrades do. Default: it isn't kept warm. */
  readonly warmth?: { readonly trial?: ClientTrial | undefined };
}

/** The policy of a prompt session with the defaults of gateway, server and adapters, but for what `options` says. */
export function plannerPolicy(
  { profile, windowTokens, countTokens }: CallPolicyOptions,
  { recall = true, warmth, ...options }: PlannerOptions = {},
): CallPolicy {
  const session = plannerSession({
    profile,
    windowTokens,
    countTokens,
    archive: memoryArchive(),
    ...options,
  });
  return {
    view: (call) => session.view(call, { nowMs: call.nowMs, recall }),
    sent: (usage) => {
      const entry = session.sent(usage);
      warmth?.trial?.learn(entry?.warmth?.upgrade);
    },
    ...(warmth && {
      warmer: {
        next: (idle) => session.nextPing({ ...idle, ...(warmth.trial && { trial: warmth.trial.known }) }),
        pinged: (ping) => {
          const { upgrade } = session.pinged(ping);
          warmth.trial?.learn(upgrade);
        },
      },
    }),
  };
}
