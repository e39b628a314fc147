import type { Profile } from "./profile.ts";

/** What one call of a session showed of its provider's cache. */
export interface WarmthObservation {
  /** Time since the call before, in milliseconds. */
  readonly idleMs: number;
  /** Whether the prefix was still there. */
  readonly warm: boolean;
}

/** The profile's probability that a prefix last used this long ago is still cached. */
export function priorWarmth({ warmth }: Pick<Profile, "warmth">, idleMs: number): number {
  return warmth.find((line) => idleMs <= line.idleMs)?.probability ?? 0;
}

export function estimateWarmth(
  profile: Pick<Profile, "warmth">,
  idleMs: number,
  observations: readonly WarmthObservation[],
): number {
  return priorWarmth(profile, idleMs);
}
