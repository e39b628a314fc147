/**
 * Whether a provider makes a warm prefix last an hour for a request that reads it and puts an hour's mark behind a little
 * new text. By its documents it does; nobody promises it of resellers, so it has to show it. Plain data, to be kept for each
 * provider, key and model.
 */
export type UpgradeTrial = ReturnType<typeof observeUpgrade>;

/** Nobody has asked for an upgrade yet. */
export const UNTRIED: ReturnType<typeof observeUpgrade> = { returns: 0, misses: 0 };

/** What an upgrade, or the request that came back to it, has shown. */
export type UpgradeEvidence = Parameters<typeof observeUpgrade>[1];

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

/** The trial after what an upgrade has shown. A bill without the hour ends it, and so do two of the first returns. */
export function observeUpgrade(trial: {
  /** Whether a bill showed what an upgrade should write for an hour; absent as long as none was asked for. */
  readonly isBilled?: boolean;
  /** Conversations that came back after five minutes to an hour, up to {@linkcode RETURNS}. */
  readonly returns: number;
  /** Of these, those that found less than nine tenths of their prefix. */
  readonly misses: number;
}, { of, isGood }: {
  /** What its bill said, or whether the prefix was there again. */
  readonly of: "bill" | "return";
  /** Whether it was as documented. */
  readonly isGood: boolean;
}): typeof trial {
  if (of === "bill") return { ...trial, isBilled: isGood && trial.isBilled !== false };
  const { returns, misses } = trial;
  return returns < RETURNS ? { ...trial, returns: returns + 1, misses: misses + (isGood ? 0 : 1) } : trial;
}
