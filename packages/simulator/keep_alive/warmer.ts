import {
  type Idle,
  type KeepAliveRequest,
  observeUpgrade,
  type Profile,
  type SentKeepAlive,
  UNTRIED,
} from "@tare/planner";
import { keepAliveClock } from "@tare/planner/internal/parts";
import type { RequestMade } from "@tare/planner/internal";

export interface IdleCall extends Idle {
  readonly requestedAtMs: number;
  /** Time of the newest request or keep-alive request. */
  readonly usedMs: number;
  readonly keepAliveRequests: number;
  readonly promptTokens: number;
  readonly isFirst: boolean;
  /** Time of the next request, for clairvoyant rules only; infinite without one. */
  readonly nextMs: number;
  /** Tokens of the prefix that the next request shares with the newest. */
  readonly nextSharedTokens: number;
}

export interface Warmer {
  /** Part of each prompt that is cached for an hour. Default: none. */
  readonly hour?: "all" | "head" | undefined;
  next(idle: IdleCall): Pick<KeepAliveRequest, "type" | "atMs"> | undefined;
  requested?(request: RequestMade): void;
  recordKeepAlive?(request: SentKeepAlive & { readonly costUnits: number }): void;
}

/** Returns a factory of keep-alives; the sessions of one client share it. */
export type Rule = (profile: Profile) => () => Warmer;

/** Observed results of extended keep-alive for one provider, key and model. */
export class ClientTrial {
  #known: ReturnType<typeof observeUpgrade> = UNTRIED;

  get known(): ReturnType<typeof observeUpgrade> {
    return this.#known;
  }

  readonly learn = (evidence: Parameters<typeof observeUpgrade>[1] | undefined): void => {
    if (evidence) this.#known = observeUpgrade(this.#known, evidence);
  };
}

/** Returns the planner's keep-alive rule, with extended keep-alive requests if `upgrades`, otherwise exact ones only. */
export const clockRule = (upgrades: boolean): Rule => (profile) => {
  const trial = upgrades ? new ClientTrial() : undefined;
  return () => {
    const clock = keepAliveClock(profile);
    return {
      next: (idle) => clock.next({ ...idle, ...(trial && { trial: trial.known }) }),
      requested(request) {
        const upgrade = clock.requested(request);
        trial?.learn(upgrade);
      },
      recordKeepAlive(request) {
        const upgrade = clock.recordKeepAlive(request);
        trial?.learn(upgrade);
      },
    };
  };
};
