import type { Profile } from "../providers.ts";

/** What one call of a session showed of its provider's cache. */
export interface WarmthObservation {
  /** Time since the call before, in milliseconds. */
  readonly idleMs: number;
  /** Whether the prefix was still there. */
  readonly warm: boolean;
}

/** What a session has shown so far. Plain data. */
export interface WarmthRecord {
  /** Calls that came before the end of the profile's first line. */
  readonly promptCalls: number;
  /** Of these, calls that found the prefix gone. */
  readonly misses: number;
  /** How likely each hypothesis is (see {@linkcode estimateWarmth}), relative to the others; empty at first. */
  readonly weights: readonly number[];
}

/** A session that has shown nothing yet. */
export const NO_WARMTH: WarmthRecord = { promptCalls: 0, misses: 0, weights: [] };

/** How often a provider may lose a prefix before its time: seldom, now and then, often. */
const LOSS_RATES = [0.02, 0.1, 0.3] as const;

/** How often a prefix is found that should be gone by a hypothesis. */
const SURVIVAL_RATE = 0.03;

/** So many calls of the session outweigh the prior of the profile's first line. */
const PRIOR_CALLS = 50;

/** What of a profile this goes by. */
type WarmthRules = Pick<Profile, "warmth" | "ttlMs">;

interface Hypothesis {
  readonly ttlMs: number;
  readonly lossRate: number;
  readonly weight: number;
}

/** The profile's probability that a prefix last used this long ago is still cached. */
export function priorWarmth({ warmth }: Pick<Profile, "warmth">, idleMs: number): number {
  return warmth.find((line) => idleMs <= line.idleMs)?.probability ?? 0;
}

/**
 * The probability that a prefix last used this long ago is still cached, as the profile's prior says and this
 * session corrects it.
 *
 * Recorded sessions differ less from call to call than from one another: one keeps its prefixes for five minutes,
 * another for an hour. So each line of the profile's table is taken as a hypothesis on this session's time to live,
 * as likely at first as the probability that the table loses at its end, each with three rates at which prefixes are
 * lost before their time, as likely as the profile's own rate lets them be; Bayes' rule weighs them by what was seen. Calls within the first line tell nothing of the
 * time to live: they only correct that line's own probability.
 */
export function estimateWarmth(
  profile: WarmthRules,
  idleMs: number,
  { promptCalls, misses, weights }: WarmthRecord,
): number {
  const first = profile.warmth[0];
  if (!first) return 0;
  if (idleMs <= first.idleMs) {
    return (PRIOR_CALLS * first.probability + promptCalls - misses) / (PRIOR_CALLS + promptCalls);
  }
  let warm = 0;
  let all = 0;
  for (const hypothesis of hypotheses(profile, weights)) {
    warm += hypothesis.weight * warmBy(hypothesis, idleMs);
    all += hypothesis.weight;
  }
  return all > 0 ? warm / all : 0;
}

/** The record after one more call. */
export function observeWarmth(
  profile: WarmthRules,
  { idleMs, warm }: WarmthObservation,
  record: WarmthRecord,
): WarmthRecord {
  const first = profile.warmth[0];
  if (!first) return record;
  if (idleMs <= first.idleMs) {
    return { ...record, promptCalls: record.promptCalls + 1, misses: record.misses + (warm ? 0 : 1) };
  }
  const weighed = hypotheses(profile, record.weights).map((hypothesis) => {
    const chance = warmBy(hypothesis, idleMs);
    return hypothesis.weight * (warm ? chance : 1 - chance);
  });
  const all = weighed.reduce((sum, weight) => sum + weight, 0);
  return { ...record, weights: weighed.map((weight) => weight / all) };
}

function warmBy({ ttlMs, lossRate }: Hypothesis, idleMs: number): number {
  return idleMs <= ttlMs ? 1 - lossRate : SURVIVAL_RATE;
}

function hypotheses({ warmth, ttlMs: statedMs }: WarmthRules, weights: readonly number[]): Hypothesis[] {
  const [seldom, ...oftener] = LOSS_RATES;
  const lost = 1 - priorWarmth({ warmth }, statedMs);
  // A profile that loses a tenth before its time is open to any rate; one that loses a hundredth hardly to a high one.
  const open = Math.min(1, (10 * lost) ** 2);
  const rates = [
    { lossRate: Math.min(seldom, lost), chance: 1 },
    ...oftener.map((lossRate) => ({ lossRate, chance: open })),
  ];
  return warmth.flatMap(({ idleMs: ttlMs, probability }, line) =>
    rates.map(({ lossRate, chance }, rate) => ({
      ttlMs,
      lossRate,
      // A line that loses nothing stays possible.
      weight: weights[line * rates.length + rate] ??
        chance * Math.max(1e-6, probability - (warmth[line + 1]?.probability ?? 0)),
    }))
  );
}
