import { plannerSession, type PromptSessionOptions } from "@tare/planner";
import { BY_AGE } from "../../../../packages/planner/retention/find_removals.ts";
import { memoryArchive } from "@tare/prune";
import type { Trial } from "../../warmth/rules.ts";
import type { MakePolicy, Policy, PolicyOptions } from "./policy.ts";

/** What a planner's policy is made with beside what every policy is handed. */
interface PlannerOptions extends Partial<PromptSessionOptions> {
  /** Whether the model can recall what left. Default: yes, also where `--bare` leaves the tool out of the prompt. */
  readonly recall?: boolean;
  /** Keeps the session warm, and learns from it what upgrades do. Default: it isn't kept warm. */
  readonly warmth?: { readonly trial?: Trial | undefined };
}

/** The planner with other options than it ships with, by the policy's name: so each part of it can be measured. */
const VARIANTS: Readonly<Record<string, PlannerOptions>> = {
  /** Every result whole until it leaves. */
  "planner-untruncated": { mechanisms: { truncate: false } },
  /** Nothing but what is said once. */
  "planner-nothing": { forget: "nothing" },
  /** Nothing but letting go. */
  "planner-repeating": { mechanisms: { references: false, notation: false } },
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
    (given: PolicyOptions) => plannerPolicy(given, options),
  ]),
);

/** The policy of a prompt session with the defaults of gateway, server and adapters, but for what `options` says. */
export function plannerPolicy(
  { profile, windowTokens, countTokens }: PolicyOptions,
  { recall = true, warmth, ...options }: PlannerOptions = {},
): Policy {
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
