import { servedTokens } from "../cache/prefix_cache.ts";
import type { Profile } from "../providers.ts";

/** Something that could leave the prompt, with its price tag. */
export interface Removable {
  /** Where it starts, in tokens from the start of the prompt. */
  readonly start: number;
  /** Tokens by which the prompt would shrink. */
  readonly tokens: number;
  /** What carrying these tokens has cost since they could have left. */
  readonly rent: number;
  /** Whether a cut may start here; otherwise it only goes along with one in front of it. */
  readonly idle: boolean;
}

/** A rewrite that starts at one of the removables and takes everything behind it along. */
export interface Cut {
  /** Position, among the removables, of the first that goes. */
  readonly first: number;
  /** Tokens by which the prompt shrinks (ΔT). */
  readonly tokens: number;
  /** Tokens that the cache would have served and that it no longer can: those behind the cut (S, and what was cached of ΔT). */
  readonly brokenTokens: number;
  /** What carrying the tokens has cost so far. */
  readonly rent: number;
  /** What this call costs more than without the rewrite; negative if it costs less. */
  readonly price: number;
}

/** A prompt that is about to be sent. */
export interface CachedPrompt {
  /** The provider's cache rules and prices. */
  readonly profile: Profile;
  /** Tokens of the prompt as it stands. */
  readonly promptTokens: number;
  /** Of these, tokens that the cache serves if it is still warm. */
  readonly cachedTokens: number;
  /** Probability that it is. */
  readonly alive: number;
  /** What rides along with any rewrite, from where on, and by how many tokens the prompt shrinks for it. Default: nothing. */
  readonly ride?: { readonly start: number; readonly tokens: number } | undefined;
}

/**
 * All rewrites of a prompt, from the newest removable backwards, because a cut nearer to the end keeps a longer
 * prefix. A cut that leaves c′ of c cached tokens and takes ΔT tokens out of the prompt has the price
 *
 *     alive · (write − read) · (c − c′) − write · ΔT
 *
 * A rewrite is worth its price as soon as the rent paid equals it: the ski-rental rule (Karlin, Manasse, Rudolph,
 * Sleator 1988). Where tokens become removable at a steady pace this is also the interval of the economic order
 * quantity (Harris 1913): the rent of one interval equals the price of ending it.
 */
export function weighCuts(
  removables: readonly Removable[],
  { profile, promptTokens, cachedTokens, alive, ride }: CachedPrompt,
): Cut[] {
  let tokens = ride?.tokens ?? 0;
  let rent = 0;
  const cuts: Cut[] = [];
  for (let first = removables.length - 1; first >= 0; first--) {
    const removable = removables[first]!;
    tokens += removable.tokens;
    rent += removable.rent;
    if (!removable.idle) continue;
    const sharedTokens = Math.min(removable.start, ride?.start ?? Infinity);
    const kept = servedTokens(profile, { promptTokens, sharedTokens });
    const brokenTokens = Math.max(0, cachedTokens - kept);
    const price = alive * (profile.write - profile.read) * brokenTokens - profile.write * tokens;
    cuts.push({ first, tokens, brokenTokens, rent, price });
  }
  return cuts;
}
