/**
 * Whether a provider makes a warm prefix last an hour for a request that reads it and puts an hour's breakpoint after a
 * little new text. Documented, but not by resellers, so the provider has to show it. Plain data, to be stored for each
 * provider, key and model.
 */
export interface UpgradeTrial {
  /** Whether a bill showed what an upgrade should write for an hour. Absent: no upgrade was requested. */
  readonly isBilled?: boolean;
  /** Conversations that came back after five minutes to an hour, up to {@linkcode RETURNS}. */
  readonly returns: number;
  /** Of these, those that found less than nine tenths of their prefix. */
  readonly misses: number;
}

/** No upgrade was requested yet. */
export const UNTRIED: UpgradeTrial = { returns: 0, misses: 0 };

/** What an upgrade, or the request that came back to it, has shown. */
export interface UpgradeOutcome {
  /** What its bill showed, or whether the prefix was there again. */
  readonly of: "bill" | "return";
  /** Whether it was as documented. */
  readonly isGood: boolean;
}

/** So many conversations that come back are looked at. */
const RETURNS = 3;

/** From so many of them on that found nothing, no upgrade is asked for any more. */
const MOST_MISSES = 2;

/** The first upgrade is asked for on no smaller a prefix, in tokens: less would show little. */
const LEAST_PROBE_TOKENS = 20_000;

/** Whether an upgrade may be asked for on a prefix of so many tokens. The first is a probe. */
export function mayUpgrade({ isBilled, misses }: UpgradeTrial, prefixTokens: number): boolean {
  return isBilled === undefined ? prefixTokens >= LEAST_PROBE_TOKENS : isBilled && misses < MOST_MISSES;
}

/**
 * Returns the trial after what an upgrade has shown. A bill without the hour ends it, and so do two of the first returns.
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
