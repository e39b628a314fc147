import type { Profile } from "./profile.ts";

/** Something that could leave the prompt, with its price tag. */
export interface Removable {
  /** Where it starts, in tokens from the start of the prompt. */
  readonly start: number;
  /** Tokens by which the prompt would shrink. */
  readonly tokens: number;
  /** What carrying these tokens has cost since they could have left. */
  readonly rent: number;
}

/** A rewrite that starts at one of the removables and takes everything behind it along. */
export interface Cut {
  /** Position, among the removables, of the first that goes. */
  readonly first: number;
  /** Tokens by which the prompt shrinks (ΔT). */
  readonly tokens: number;
  /** Tokens behind the cut that the cache would have served (S, and of ΔT what was cached). */
  readonly cachedTokens: number;
  /** What carrying the tokens has cost so far. */
  readonly rent: number;
  /** What this call costs more than without the rewrite; negative if it costs less. */
  readonly price: number;
}

/**
 * All rewrites of a prompt, from the newest removable backwards, because a cut nearer to the end keeps a longer
 * prefix. For a cut at token p, with c tokens of the prompt cached:
 *
 *     price = alive · (write − read) · (c − min(c, p)) − write · ΔT
 *
 * A rewrite is worth its price as soon as the rent paid equals it: the ski-rental rule (Karlin, Manasse, Rudolph,
 * Sleator 1988). Where tokens become removable at a steady pace this is also the interval of the economic order
 * quantity (Harris 1913): the rent of one interval equals the price of ending it.
 */
export function weighCuts(
  removables: readonly Removable[],
  { profile: { write, read }, cachedTokens, alive }: {
    readonly profile: Pick<Profile, "write" | "read">;
    /** Tokens of the prompt, as it stands, that the cache serves if it is still warm. */
    readonly cachedTokens: number;
    /** Probability that it is. */
    readonly alive: number;
  },
): Cut[] {
  let tokens = 0;
  let rent = 0;
  const cuts: Cut[] = [];
  for (const [first, removable] of [...removables.entries()].reverse()) {
    tokens += removable.tokens;
    rent += removable.rent;
    const behind = Math.max(0, cachedTokens - removable.start);
    const price = alive * (write - read) * behind - write * tokens;
    cuts.push({ first, tokens, cachedTokens: behind, rent, price });
  }
  return cuts;
}
