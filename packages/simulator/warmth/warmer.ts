import { type Idle, observeUpgrade, type Ping, type PingSent, type Profile, UNTRIED } from "@tare/planner";
import { pingClock } from "@tare/planner/internal/parts";
import type { RequestMade } from "@tare/planner/internal";

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
  readonly hour?: "all" | "head" | undefined;
  next(idle: IdleCall): Pick<Ping, "type" | "atMs"> | undefined;
  requested?(request: RequestMade): void;
  pinged?(ping: PingSent & { readonly tokenUnits: number }): void;
}

/** Makes what keeps a session warm; sessions of one client share a key. */
export type Rule = (profile: Profile) => () => Warmer;

/** What upgrades have shown of one provider, key and model. */
export class ClientTrial {
  #known: ReturnType<typeof observeUpgrade> = UNTRIED;

  get known(): ReturnType<typeof observeUpgrade> {
    return this.#known;
  }

  readonly learn = (evidence: Parameters<typeof observeUpgrade>[1] | undefined): void => {
    if (evidence) this.#known = observeUpgrade(this.#known, evidence);
  };
}

/** The planner's clock, which may ask for an hour, or makes exact pings alone. */
export const clockRule = (upgrades: boolean): Rule => (profile) => {
  const trial = upgrades ? new ClientTrial() : undefined;
  return () => {
    const clock = pingClock(profile);
    return {
      next: (idle) => clock.next({ ...idle, ...(trial && { trial: trial.known }) }),
      requested(request) {
        const upgrade = clock.requested(request);
        trial?.learn(upgrade);
      },
      pinged(ping) {
        const upgrade = clock.pinged(ping);
        trial?.learn(upgrade);
      },
    };
  };
};
