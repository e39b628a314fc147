import { servedTokens } from "../cache/prefix_cache.ts";
import type { Removal } from "../retention/find_removals.ts";
import type { Decision } from "./plan.ts";
import type { CachedPrompt } from "./weigh_cuts.ts";

/** Share of the window from which on price no longer decides. The rest is room for the answer. */
export const WINDOW_SHARE = 0.9;

/** A full window is emptied down to this share, so that it isn't full again at once. */
const ROOMY_SHARE = 0.6;

/** Share of the prompt that must leave if that can't be: a rewrite for less would come again at the next call. */
const WORTHWHILE_SHARE = 0.1;

/**
 * What leaves a full window: what costs least for each token of room, counting what is read again behind the first and
 * what the model will miss. Nothing if the window isn't full, or if nothing that can leave would help.
 */
export function makeRoom(
  removals: readonly Removal[],
  prompt: CachedPrompt & { readonly windowTokens: number },
): readonly Removal[] {
  const { promptTokens, windowTokens } = prompt;
  if (promptTokens <= WINDOW_SHARE * windowTokens) return [];
  const those = removals.filter(({ tokens }) => tokens > 0);
  const all = those.reduce((sum, { tokens }) => sum + tokens, 0);
  const fits = (share: number) => promptTokens - all <= share * windowTokens;
  for (const share of [ROOMY_SHARE, WINDOW_SHARE]) {
    if (fits(share)) return cheapestRoom(those, promptTokens - share * windowTokens, prompt);
  }
  return all >= WORTHWHILE_SHARE * promptTokens ? those : [];
}

function cheapestRoom(
  removals: readonly Removal[],
  neededTokens: number,
  { profile, cachedTokens, alive }: CachedPrompt,
): readonly Removal[] {
  const broken = alive * (profile.write - profile.read);
  let best: { readonly cost: number; readonly removals: readonly Removal[] } | undefined;
  for (let back = 1; back < 2 * removals.length; back *= 2) {
    const behind = removals.slice(-back);
    const start = behind[0]?.start ?? 0;
    const byWorth = behind.toSorted((a, b) => a.loss / a.tokens - b.loss / b.tokens);
    let freed = 0;
    let loss = 0;
    for (const [at, removal] of byWorth.entries()) {
      freed += removal.tokens;
      loss += removal.loss;
      if (freed < neededTokens) continue;
      const cost = (broken * Math.max(0, cachedTokens - start - freed) + loss) / freed;
      if (cost < (best?.cost ?? Infinity)) best = { cost, removals: byWorth.slice(0, at + 1) };
    }
  }
  return best?.removals.toSorted((a, b) => a.start - b.start) ?? removals;
}

/** The decision to make room, in numbers. */
export function forced(
  room: readonly Removal[],
  { profile, promptTokens, cachedTokens, alive }: CachedPrompt,
): Decision {
  const tokens = room.reduce((sum, removal) => sum + removal.tokens, 0);
  const kept = servedTokens(profile, { promptTokens, sharedTokens: room[0]?.start ?? 0 });
  const brokenTokens = Math.max(0, cachedTokens - kept);
  const price = alive * (profile.write - profile.read) * brokenTokens - profile.write * tokens;
  return { cause: "window", alive, tokens, brokenTokens, rent: 0, price };
}
