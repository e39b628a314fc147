import type { Decision, DecisionCause } from "./plan.ts";
import { type CachedPrompt, type Cut, type Removable, weighCuts } from "./weigh_cuts.ts";

/** Share of the window from which on price no longer decides. The rest is room for the answer. */
export const WINDOW_SHARE = 0.9;

/** Share of a prompt that a forced rewrite must free if it can't make it fit, or it would come again at once. */
const WORTHWHILE_SHARE = 0.1;

/** A cache that is there with less than this probability is not reckoned with. */
const SURELY_COLD = 0.1;

/** The probability that the loss limit reckons with: unless the cache is as good as gone, that it is there. */
export function reckonedAlive(alive: number): number {
  return alive < SURELY_COLD ? alive : 1;
}

/** A prompt that is about to be sent, and what bounds the decision. */
export interface Situation extends CachedPrompt {
  /** The model's context window. */
  readonly windowTokens: number;
  /** Most that a rewrite may cost this call more than without it, should the cache still be warm. */
  readonly allowedPrice: number;
  /** So many of the first removables are tools. A full window spares them if it can: little is won by them, and all is read again. */
  readonly toolsFirst: number;
  /** Whether rewriting has stopped, but for the window. */
  readonly stopped: boolean;
}

/** The best rewrite, and whether to make it. */
export function decide(
  removables: readonly Removable[],
  situation: Situation,
): { readonly cut?: Cut; readonly decision?: Decision } {
  const { promptTokens, alive, allowedPrice, stopped } = situation;
  const cuts = weighCuts(removables, situation);
  const whole = cuts.at(-1);
  if (!whole) return {};
  const decided = ({ first: _, ...figures }: Cut, cause: DecisionCause): Decision => ({
    cause,
    alive,
    ...figures,
  });
  const limit = WINDOW_SHARE * situation.windowTokens;
  if (promptTokens > limit) {
    const fits = ({ tokens }: Cut) => promptTokens - tokens <= limit;
    const forced = cuts.find((cut) => cut.first === situation.toolsFirst && fits(cut)) ?? whole;
    const worthwhile = fits(forced) || forced.tokens >= WORTHWHILE_SHARE * promptTokens;
    if (worthwhile) return { cut: forced, decision: decided(forced, "window") };
  }

  const paid = cuts.filter(({ rent, price }) => rent >= price);
  const worst = weighCuts(removables, { ...situation, alive: reckonedAlive(alive) });
  const affordable = paid.filter(({ first }) =>
    (worst.find((cut) => cut.first === first)?.price ?? 0) <= Math.max(0, allowedPrice)
  );
  // The cuts grow from first to last: the largest takes most along for rent that is paid.
  const best = stopped ? undefined : affordable.at(-1);
  if (best) return { cut: best, decision: decided(best, "price") };
  const cause = paid.length === 0 ? "wait" : stopped ? "stopped" : "loss_limit";
  return { decision: decided(paid.at(-1) ?? nearest(cuts, whole), cause) };
}

/** The cut whose rent comes nearest to its price. */
function nearest(cuts: readonly Cut[], whole: Cut): Cut {
  return cuts.reduce((best, cut) => cut.rent - cut.price >= best.rent - best.price ? cut : best, whole);
}
