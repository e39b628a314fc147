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
  /** So many of the first removables are tools. A full window alone doesn't take them along if it can fit without: little is won by them. */
  readonly toolsFirst: number;
  /** Whether rewriting has stopped, but for the window. */
  readonly stopped: boolean;
}

/** The best rewrite, and whether to make it. */
export function decide(
  removables: readonly Removable[],
  situation: Situation,
): { readonly cut?: Cut; readonly decision?: Decision } {
  const { alive, stopped } = situation;
  const cuts = weighCuts(removables, situation);
  const whole = cuts.at(-1);
  if (!whole) return {};
  const decided = ({ first: _, ...figures }: Cut, cause: DecisionCause): Decision => ({
    cause,
    alive,
    ...figures,
  });
  const forced = forcedCut(cuts, situation);
  const paid = paidCuts(cuts, forced ?? NOTHING);
  const affordable = affordableCuts(paid, { forced, removables, situation });
  // The cuts grow from first to last: the largest takes most along for rent that is paid.
  const bought = stopped ? undefined : affordable.at(-1);
  const cut = bought ?? forced;
  if (cut) return { cut, decision: decided(cut, forced ? "window" : "price") };
  if (paid.length > 0) return { decision: decided(paid.at(-1) ?? whole, stopped ? "stopped" : "loss_limit") };
  const nearest = cuts.reduce((a, b) => b.rent - b.price >= a.rent - a.price ? b : a);
  return { decision: decided(nearest, "wait") };
}

const NOTHING: Cut = { first: Infinity, tokens: 0, brokenTokens: 0, rent: 0, price: 0 };

/** What must leave because the window is full, if that helps. */
function forcedCut(
  cuts: readonly Cut[],
  { promptTokens, windowTokens, toolsFirst }: Situation,
): Cut | undefined {
  const limit = WINDOW_SHARE * windowTokens;
  if (promptTokens <= limit) return undefined;
  const fits = ({ tokens }: Cut) => promptTokens - tokens <= limit;
  const cut = cuts.find((cut) => cut.first === toolsFirst && fits(cut)) ?? cuts.at(-1);
  return cut && (fits(cut) || cut.tokens >= WORTHWHILE_SHARE * promptTokens) ? cut : undefined;
}

/** The cuts that go beyond `base` for rent that is paid. */
function paidCuts(cuts: readonly Cut[], base: Cut): Cut[] {
  return cuts.filter(({ first, rent, price }) =>
    first < base.first && rent - base.rent >= price - base.price
  );
}

function affordableCuts(
  paid: readonly Cut[],
  { forced, removables, situation }: {
    readonly forced: Cut | undefined;
    readonly removables: readonly Removable[];
    readonly situation: Situation;
  },
): Cut[] {
  const { alive, allowedPrice } = situation;
  const prices = new Map(
    weighCuts(removables, { ...situation, alive: reckonedAlive(alive) }).map((
      { first, price },
    ) => [first, price]),
  );
  const spent = forced ? prices.get(forced.first) ?? 0 : 0;
  const left = Math.max(0, allowedPrice - spent);
  return paid.filter(({ first }) => (prices.get(first) ?? 0) - spent <= left);
}
