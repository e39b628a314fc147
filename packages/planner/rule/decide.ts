import type { Removal } from "../retention/find_removals.ts";
import type { PlannerState } from "./planner_state.ts";
import type { Decision, DecisionCause } from "./plan.ts";
import { type CachedPrompt, type Cut, type Removable, weighCuts } from "./weigh_cuts.ts";

/** A cache that is there with less than this probability is not reckoned with. */
const SURELY_COLD = 0.1;

/** Whether a cache that is there with this probability is not reckoned with. */
export function isSurelyCold(alive: number): boolean {
  return alive < SURELY_COLD;
}

/** The probability that the loss limit reckons with: unless the cache is as good as gone, that it is there. */
export function reckonedAlive(alive: number): number {
  return isSurelyCold(alive) ? alive : 1;
}

/** What could leave, with what carrying it has cost since it could have. */
export function withRents(
  removals: readonly Removal[],
  { carried, idleSince }: Pick<PlannerState, "carried" | "idleSince">,
): Removable[] {
  return removals.map(({ start, tokens, idle, parts }) => ({
    start,
    tokens,
    idle,
    rent: idle
      ? parts.reduce((sum, { name, tokens }) => sum + tokens * (carried - (idleSince[name] ?? carried)), 0)
      : 0,
  }));
}

/** A prompt that is about to be sent, and what bounds the decision. */
export interface Situation extends CachedPrompt {
  /** Most that a rewrite may cost this call more than without it, should the cache still be warm. */
  readonly allowedPrice: number;
  /** Whether rewriting has stopped. */
  readonly stopped: boolean;
}

/**
 * The best rewrite, and whether to make it. Nothing is bought on the chance alone that the cache is cold: either rent
 * was paid for what leaves, or its leaving costs nothing even if the cache is there.
 */
export function decide(
  removables: readonly Removable[],
  situation: Situation,
): { readonly cut?: Cut; readonly decision?: Decision } {
  const { alive, allowedPrice, stopped, ride, ...prompt } = situation;
  const cuts = weighCuts(removables, { ...prompt, alive });
  const sure = weighCuts(removables, { ...prompt, alive: reckonedAlive(alive) });
  // What rides along is nobody's to weigh, but it is paid.
  const whole = ride ? weighCuts(removables, { ...prompt, alive: reckonedAlive(alive), ride }) : sure;
  const largest = cuts.at(-1);
  if (!largest) return {};
  const decided = ({ first: _, ...figures }: Cut, cause: DecisionCause): Decision => ({
    cause,
    alive,
    ...figures,
  });
  const paid = cuts.filter(({ rent, price }, at) => rent >= price && (rent > 0 || sure[at]!.price <= 0));
  const limit = Math.max(0, allowedPrice);
  const affordable = cuts.filter((cut, at) => paid.includes(cut) && whole[at]!.price <= limit);
  // The cuts grow from first to last: the largest takes most along for rent that is paid.
  const cut = stopped ? undefined : affordable.at(-1);
  if (cut) return { cut, decision: decided(cut, "price") };
  if (paid.length > 0) {
    return { decision: decided(paid.at(-1) ?? largest, stopped ? "stopped" : "loss_limit") };
  }
  const nearest = cuts.reduce((a, b) => b.rent - b.price >= a.rent - a.price ? b : a);
  return { decision: decided(nearest, "wait") };
}
