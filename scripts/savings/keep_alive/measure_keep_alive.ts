import type { CountTokens } from "@tare/messages";
import { type Profile, profileNamed } from "@tare/planner";
import type { Data } from "../load_data.ts";
import {
  ClientTrial,
  type MakePolicy,
  plannerPolicy,
  play,
  playSession,
  type Recording,
  timedSession,
  type WarmOptions,
} from "@tare/simulator/economy";
import { REFETCH_WEIGHT } from "../measure_economy.ts";
import { POLICIES } from "../policies/policies.ts";
import { RULES } from "./rules.ts";

/** Result of a keep-alive rule. Costs are relative to the same sessions without keep-alive. */
export interface KeepAliveRow {
  readonly data: string;
  readonly rule: string;
  readonly sessions: number;
  readonly cost: number;
  /** Cost relative to resending everything, if prompts are pruned. */
  readonly vsResend?: number;
  readonly worst: number;
  readonly losing: number;
  readonly keepAliveRequests: number;
}

/** Anthropic's, in cost units. */
const OUTPUT_PRICE = 5;

const PROFILE: Profile = { ...profileNamed("anthropic-5m"), price: { input: 1, output: OUTPUT_PRICE } };

const LOSS_SHARE = 0.02;

export interface KeepAliveOptions extends Pick<WarmOptions, "reportsEnd"> {
  readonly countTokens: CountTokens;
  /** Whether the planner prunes the prompts; otherwise they are replayed as recorded. */
  readonly prunes: boolean;
}

interface Trio {
  readonly cost: number;
  readonly keepAliveRequests: number;
  readonly bare: number;
  readonly resent: number;
}

type PlayRule = (
  recording: Recording,
) => Promise<{ readonly cost: number; readonly keepAliveRequests: number }>;

export async function measureKeepAlive(
  sources: readonly Pick<Data, "name" | "recordings">[],
  options: KeepAliveOptions,
): Promise<KeepAliveRow[]> {
  const rules = options.prunes ? plannedRules(options) : recordedRules(options);
  const played = new Map<string, Map<string, Trio[]>>();
  for (const { name, recordings } of sources) {
    // Sessions of one client share a key, and with it the observed results of extended keep-alive.
    const plays = rules.map(({ rule, make }) => ({ rule, play: make() }));
    for (const recording of recordings) {
      const [first, ...others] = plays;
      const bare = await first!.play(recording);
      const resent = options.prunes ? await resend(recording, options.countTokens) : bare.cost;
      const add = (
        rule: string,
        { cost, keepAliveRequests }: { readonly cost: number; readonly keepAliveRequests: number },
      ) => {
        const its = played.get(rule) ?? new Map<string, Trio[]>();
        its.set(name, [...its.get(name) ?? [], { cost, keepAliveRequests, bare: bare.cost, resent }]);
        played.set(rule, its);
      };
      add(first!.rule, bare);
      for (const { rule, play } of others) add(rule, await play(recording));
    }
  }
  return [...played].flatMap(([rule, bySource]) => {
    const rows = [...bySource].map(([data, trios]) => toRow({ data, rule }, trios, options));
    return rows.length > 1
      ? [...rows, toRow({ data: "all", rule }, [...bySource.values()].flat(), options)]
      : rows;
  });
}

interface NamedRule {
  readonly rule: string;
  readonly make: () => PlayRule;
}

/** The rule with extended keep-alive is also replayed with a provider that refuses it. */
const ASKING = "upgrade";
const REFUSED = "upgrade, refused";

function recordedRules({ countTokens, reportsEnd }: KeepAliveOptions): NamedRule[] {
  const timed = new WeakMap<Recording, ReturnType<typeof timedSession>>();
  const named = (rule: string, grants: boolean): NamedRule => ({
    rule: grants ? rule : REFUSED,
    make: () => {
      const warmer = RULES[rule]!(PROFILE);
      return (recording) => {
        const session = timed.get(recording) ?? timedSession(recording, countTokens);
        timed.set(recording, session);
        const options = { profile: PROFILE, outputPrice: OUTPUT_PRICE, grants, reportsEnd };
        return Promise.resolve(playSession(session, warmer(), options));
      };
    },
  });
  return Object.keys(RULES).flatMap((rule) =>
    rule === ASKING ? [named(rule, true), named(rule, false)] : [named(rule, true)]
  );
}

const WINDOW_TOKENS = 200_000;

function plannedRules({ countTokens, reportsEnd }: KeepAliveOptions): NamedRule[] {
  const named = (
    rule: string,
    warms: { readonly upgrades: boolean; readonly grants?: boolean } | undefined,
  ) => ({
    rule,
    make: (): PlayRule => {
      const keepAlive = warms && { trial: warms.upgrades ? new ClientTrial() : undefined };
      return async (recording) => {
        const make: MakePolicy = (given) => plannerPolicy(given, keepAlive ? { keepAlive } : {});
        const { cost, refetchCost, keepAliveRequests } = await play(recording, make, {
          ...{ profile: PROFILE, windowTokens: WINDOW_TOKENS, countTokens, recall: true, refetches: true },
          keepAlive: { grants: warms?.grants ?? true, reportsEnd },
        });
        return { cost: cost + REFETCH_WEIGHT * refetchCost, keepAliveRequests };
      };
    },
  });
  return [
    named("none", undefined),
    named("exact", { upgrades: false }),
    named(ASKING, { upgrades: true }),
    named(REFUSED, { upgrades: true, grants: false }),
  ];
}

async function resend(recording: Recording, countTokens: CountTokens): Promise<number> {
  const { cost } = await play(recording, POLICIES.resend!, {
    ...{ profile: PROFILE, windowTokens: WINDOW_TOKENS, countTokens, recall: false, refetches: false },
  });
  return cost;
}

function toRow(
  names: Pick<KeepAliveRow, "data" | "rule">,
  trios: readonly Trio[],
  { prunes }: KeepAliveOptions,
): KeepAliveRow {
  const sum = (figure: keyof Trio) => trios.reduce((sum, trio) => sum + trio[figure], 0);
  return {
    ...names,
    sessions: trios.length,
    cost: sum("cost") / sum("bare"),
    ...(prunes && { vsResend: sum("cost") / sum("resent") }),
    worst: Math.max(...trios.map(({ cost, bare }) => cost / bare)),
    losing: trios.filter(({ cost, bare }) => cost > (1 + LOSS_SHARE) * bare).length / trios.length,
    keepAliveRequests: sum("keepAliveRequests") / trios.length,
  };
}
