import type { Profile } from "@tare/planner";
import {
  afterPing,
  afterRequest,
  type ClockState,
  type Idle,
  NEW_CLOCK,
  nextPing,
  type Ping,
  type PingMade,
  type RequestMade,
} from "../../../packages/planner/clock/clock.ts";
import {
  observeUpgrade,
  UNTRIED,
  type UpgradeEvidence,
  type UpgradeTrial,
} from "../../../packages/planner/clock/upgrade.ts";

/** A moment at which nothing is asked for. */
export interface IdleCall extends Idle {
  /** When the newest request was made. */
  readonly askedMs: number;
  /** When it or the newest ping was. */
  readonly usedMs: number;
  readonly pings: number;
  readonly promptTokens: number;
  /** Whether it was the session's first. */
  readonly isFirst: boolean;
  /** When the next request comes, for the clairvoyant alone; infinite if none does. */
  readonly nextMs: number;
  /** Tokens with which that begins like the newest. */
  readonly nextSharedTokens: number;
}

/** What keeps one session warm. */
export interface Warmer {
  /** Which part of each prompt is to last for an hour. Default: nothing. */
  readonly hour?: "all" | "head";
  next(idle: IdleCall): Pick<Ping, "type" | "atMs"> | undefined;
  requested?(request: RequestMade): void;
  pinged?(ping: PingMade): void;
}

/** Makes what keeps a session warm; sessions of one client share a key. */
export type Rule = (profile: Profile) => () => Warmer;

const STEP_MS = 280_000;

/** Pings at fixed times, as long as `most` says. */
function fixed(most: (idle: IdleCall) => number): Rule {
  return () => () => ({
    next: (idle) => idle.pings < most(idle) ? { type: "exact", atMs: idle.usedMs + STEP_MS } : undefined,
  });
}

const LEAST_TOKENS = 20_000;

const isWorthIt = ({ promptTokens, isFirst }: IdleCall) => promptTokens >= LEAST_TOKENS && !isFirst;

/** What upgrades have shown of one provider, key and model. */
export class Trial {
  #known: UpgradeTrial = UNTRIED;

  get known(): UpgradeTrial {
    return this.#known;
  }

  readonly learn = (evidence: UpgradeEvidence | undefined): void => {
    if (evidence) this.#known = observeUpgrade(this.#known, evidence);
  };
}

/** The planner's clock. */
const clock = (upgrades: boolean): Rule => (profile) => {
  const trial = upgrades ? new Trial() : undefined;
  return () => {
    let state: ClockState = NEW_CLOCK;
    return {
      next: (idle) => nextPing(state, { ...idle, ...(trial && { trial: trial.known }) }, { profile }),
      requested(request) {
        const { clock, upgrade } = afterRequest(state, request, profile);
        state = clock;
        trial?.learn(upgrade);
      },
      pinged(ping) {
        const { clock, upgrade } = afterPing(state, ping);
        state = clock;
        trial?.learn(upgrade);
      },
    };
  };
};

/** What the benchmark plays, by name. */
export const RULES: Readonly<Record<string, Rule>> = {
  none: () => () => ({ next: () => undefined }),
  "2 pings": fixed((idle) => isWorthIt(idle) ? 2 : 0),
  "4 pings": fixed((idle) => isWorthIt(idle) ? 4 : 0),
  "11 pings": fixed((idle) => isWorthIt(idle) ? 11 : 0),
  "4 pings, 11 for a tool": fixed((idle) => isWorthIt(idle) ? idle.pending === "tool" ? 11 : 4 : 0),
  // As long as the pings of a pause cost no more than writing again.
  "ski rental": (profile) => {
    const { read, write } = profile;
    return fixed(() => Math.floor((write - read) / read))(profile);
  },
  "one hour": () => () => ({ hour: "all", next: () => undefined }),
  "one hour, head": () => () => ({ hour: "head", next: () => undefined }),
  exact: clock(false),
  upgrade: clock(true),
  oracle: (profile) => fixed((idle) => bestPings(idle, profile))(profile),
};

/** As many pings as it takes to reach the next request, where that costs less than writing again. */
function bestPings(
  { askedMs, nextMs, promptTokens, nextSharedTokens }: IdleCall,
  { ttlMs, read, write }: Profile,
): number {
  const pauseMs = nextMs - askedMs;
  if (pauseMs <= ttlMs || pauseMs === Infinity) return 0;
  const pings = Math.ceil((pauseMs - ttlMs) / STEP_MS);
  return pings * read * promptTokens < (write - read) * nextSharedTokens ? pings : 0;
}
