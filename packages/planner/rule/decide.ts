import type { Decision, DecisionCause } from "./plan.ts";
import { type CachedPrompt, type Cut, type Removable, weighCuts } from "./weigh_cuts.ts";

/** A cache that is there with less than this probability is not reckoned with. */
const SURELY_COLD = 0.1;

/** The probability that the loss limit reckons with: unless the cache is as good as gone, that it is there. */
export function reckonedAlive(alive: number): number {
  return alive < SURELY_COLD ? alive : 1;
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
  const { alive, allowedPrice, stopped } = situation;
  const cuts = weighCuts(removables, situation);
  const sure = weighCuts(removables, { ...situation, alive: reckonedAlive(alive) });
  const whole = cuts.at(-1);
  if (!whole) return {};
  const decided = ({ first: _, ...figures }: Cut, cause: DecisionCause): Decision => ({
    cause,
    alive,
    ...figures,
  });
  const paid = cuts.filter(({ rent, price }, at) => rent >= price && (rent > 0 || sure[at]!.price <= 0));
  const limit = Math.max(0, allowedPrice);
  const affordable = cuts.filter((cut, at) => paid.includes(cut) && sure[at]!.price <= limit);
  // The cuts grow from first to last: the largest takes most along for rent that is paid.
  const cut = stopped ? undefined : affordable.at(-1);
  if (cut) return { cut, decision: decided(cut, "price") };
  if (paid.length > 0) return { decision: decided(paid.at(-1) ?? whole, stopped ? "stopped" : "loss_limit") };
  const nearest = cuts.reduce((a, b) => b.rent - b.price >= a.rent - a.price ? b : a);
  return { decision: decided(nearest, "wait") };
}
