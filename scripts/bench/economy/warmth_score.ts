import type { Profile } from "@tare/planner";
import {
  estimateWarmth,
  NO_WARMTH,
  observeWarmth,
  priorWarmth,
} from "../../../packages/planner/cache/prefix.ts";
import type { Recording } from "@tare/simulator/economy";

/** A call of which the recording tells whether the previous prefix was still warm, and what was predicted before. */
export interface ScoredCall {
  readonly idleMs: number;
  readonly warm: boolean;
  /** Probability by each of the {@linkcode ESTIMATES}, in their order. */
  readonly predicted: readonly number[];
}

/** The estimates that are compared: the session-corrected one, the profile's prior, and an edge at five minutes. */
export const ESTIMATES = ["session", "prior", "5 min edge"] as const;

const EDGE_MS = 5 * 60_000;

/** Share of the previous prompt that must be read from the cache to count as warm. */
const WARM_SHARE = 0.8;

/** A prompt below this share of the one before doesn't go on from it: the recorded client compacted in between. */
const SAME_PREFIX_SHARE = 0.9;

/**
 * Predicts for each call, from the calls before it alone, whether the previous prefix is still warm. Left out are
 * calls after which the provider said nothing of its cache, those whose previous prompt was not cached at all
 * (too small), and those that don't go on from it.
 */
export function scoreWarmth({ calls, usage, compacted }: Recording, profile: Profile): ScoredCall[] {
  const scored: ScoredCall[] = [];
  let record = NO_WARMTH;
  let before: {
    readonly timeMs: number;
    readonly tokens: number;
    readonly inCache: boolean;
    readonly answer: number;
  } | undefined;
  for (const { messages: answer, timeMs } of calls) {
    const reported = usage.get(answer);
    if (!reported) continue;
    const { input, cache_read = 0, cache_write } = reported;
    const tokens = input + cache_read + (cache_write ?? 0);
    if (tokens === 0) continue;
    const goesOn = before && tokens >= SAME_PREFIX_SHARE * before.tokens &&
      !compacted.some((at) => before !== undefined && before.answer < at && at <= answer);
    if (before?.inCache && goesOn) {
      const idleMs = Math.max(0, timeMs - before.timeMs);
      const warm = cache_read >= WARM_SHARE * before.tokens;
      const edge = idleMs <= EDGE_MS ? 1 : 0;
      const predicted = [estimateWarmth(profile, idleMs, record), priorWarmth(profile, idleMs), edge];
      scored.push({ idleMs, warm, predicted });
      record = observeWarmth(profile, { idleMs, warm }, record);
    }
    // Who reports no writes caches all by itself.
    const inCache = !cache_write && cache_read === 0 ? cache_write === undefined : true;
    before = { timeMs, tokens, inCache, answer };
  }
  return scored;
}

/** The Brier score (1950): the mean square of what a probability is off by; 0 is perfect. */
export function brierScore(calls: readonly ScoredCall[], estimate: number): number {
  const sum = calls.reduce(
    (all, { warm, predicted }) => all + ((predicted[estimate] ?? 0) - (warm ? 1 : 0)) ** 2,
    0,
  );
  return sum / calls.length;
}
