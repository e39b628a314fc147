/**
 * Evidence on whether a provider extends a warm prefix to an hour for a request that reads it and has an
 * hour's breakpoint after a little new text. Documented, but not by resellers. Plain data, stored per
 * provider, key and model.
 */
export interface UpgradeTrial {
  /** Whether a bill showed the expected hour's write. Absent: none was requested. */
  readonly isBilled?: boolean;
  /** Conversations that returned after five minutes to an hour, up to {@linkcode RETURNS}. */
  readonly returns: number;
  /** Number of these that found less than nine tenths of their prefix. */
  readonly misses: number;
}

/** No extended keep-alive was requested yet. */
export const UNTRIED: UpgradeTrial = { returns: 0, misses: 0 };

/** Evidence from an extended keep-alive or the request after it. */
export interface UpgradeOutcome {
  /** Source of the evidence: the bill, or the prefix found by the next request. */
  readonly of: "bill" | "return";
  readonly isGood: boolean;
}

const RETURNS = 3;

const MAX_MISSES = 2;

/** Smallest prefix of the first one, in tokens: less is weak evidence. */
const LEAST_PROBE_TOKENS = 20_000;

/**
 * Returns whether an extended keep-alive may be requested for a prefix of this size. The first is a probe.
 */
export function mayUpgrade({ isBilled, misses }: UpgradeTrial, prefixTokens: number): boolean {
  return isBilled === undefined ? prefixTokens >= LEAST_PROBE_TOKENS : isBilled && misses < MAX_MISSES;
}

/**
 * Returns the updated evidence. A bill without the hour, or two misses in the first returns, end it.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { observeUpgrade, UNTRIED } from "@tare/planner";
 *
 * const billed = observeUpgrade(UNTRIED, { of: "bill", isGood: true });
 * assertEquals(billed, { returns: 0, misses: 0, isBilled: true });
 * ```
 */
export function observeUpgrade(trial: UpgradeTrial, { of, isGood }: UpgradeOutcome): UpgradeTrial {
  if (of === "bill") return { ...trial, isBilled: isGood && trial.isBilled !== false };
  const { returns, misses } = trial;
  return returns < RETURNS ? { ...trial, returns: returns + 1, misses: misses + (isGood ? 0 : 1) } : trial;
}
