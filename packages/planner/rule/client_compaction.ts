import { toProvider } from "../cache/prefix.ts";
import { fullFromOf, leftByCompaction, promptCost } from "../ledger/ledger.ts";
import type { FlatSessionOptions } from "../prompt_session.ts";
import type { Removal } from "../retention/retention.ts";
import { type Decided, type FullWindow, growthCost } from "./decide.ts";
import type { InspectionResult } from "./inspect.ts";

/** Output of a client's summary, in the cost of prompt tokens: 2,000 tokens at five times their price. */
const SUMMARY_COST = 10_000;

/** Emptying a window may cost this many times what the client's compaction costs, because it loses nothing. */
const LOSSLESS_WORTH = 2;

/** Returns whether a full window stays as it is because the client's own compaction costs so much less. */
export function compactionPays(
  { evicted, decision, situation, baseline, scale, size }: InspectionResult & Decided,
  { fullWindow }: { readonly fullWindow: FullWindow },
  { compaction: habit, countTokens, evict, dryRun }: Pick<
    FlatSessionOptions,
    "compaction" | "countTokens" | "evict" | "dryRun"
  >,
): boolean {
  const isForced = evicted.length === 0 || decision?.cause === "window";
  // A client that continues after a refusal doesn't compact.
  if (!habit || fullWindow.refused || evict === "lossless" || dryRun || !isForced) return false;
  const { profile, promptTokens, windowTokens, cachedTokens, cacheHitProbability } = situation;
  const fullFrom = fullFromOf(habit, windowTokens, baseline);
  // Only a client that compacts when refused may be refused.
  if (size.atMost > windowTokens && fullFrom < windowTokens) return false;
  const { left } = leftByCompaction(habit, baseline, { fullFrom, scale, countTokens });
  const leftTokens = toProvider(left, { deferred: baseline.deferred, scale });
  const freed = evicted.reduce((sum, { tokens }) => sum + tokens, 0);
  const lossOf = (removals: readonly Removal[]) => removals.reduce((sum, { loss }) => sum + loss, 0);
  const evicting = { start: evicted[0]?.start ?? 0, freed, more: lossOf(evicted) };
  // The rest of the prompt is written again.
  const compacting = {
    start: Infinity,
    freed: promptTokens - leftTokens,
    more: promptCost(profile, { promptTokens, cachedTokens: cacheHitProbability * cachedTokens }) +
      SUMMARY_COST + profile.write * leftTokens + lossOf(situation.removals),
  };
  return compacting.freed > freed &&
    (freed === 0 || growthCost(evicting, situation) > LOSSLESS_WORTH * growthCost(compacting, situation));
}
