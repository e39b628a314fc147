import { servedTokens } from "../cache/prefix.ts";
import type { Decision } from "../ledger/entry.ts";
import { promptCost } from "../ledger/ledger.ts";
import type { Quote, QuotedPrompt } from "../prompt_session.ts";
import type { Profile } from "../providers.ts";
import type { Removal } from "../retention/retention.ts";

/** Share of the window from which cost no longer decides. The rest is for the answer. */
export const WINDOW_SHARE = 0.9;

const ROOMY_SHARE = 0.6;

const REFILL_SHARE = 0.1;

/** Most room for an answer that always stays free, as a share of the window and in tokens. */
const ANSWER_SHARE = 1 / 16;
const ANSWER_TOKENS = 4_096;

/**
 * Least share of the prompt that must be freed if the window can't be emptied further; less would be due
 * again at the next call.
 */
const WORTHWHILE_SHARE = 0.1;

/** Cache hit probability below which a cache counts as cold. */
const SURELY_COLD = 0.1;

/** State of a session's full window. Plain data. */
export interface FullWindow {
  readonly isFullReported: boolean;
  readonly failures: number;
  /** Tokens of the whole history from which a summary is requested again. */
  readonly askFromTokens: number;
  /** Whether it was refused so that its client compacts the history, which has not happened. Absent: false. */
  readonly refused?: true;
  /** Tokens after it was last emptied, as the provider counts. Absent: never. */
  readonly emptiedTokens?: number;
}

export const NEVER_FULL: FullWindow = { isFullReported: false, failures: 0, askFromTokens: 0 };

/** A prompt before it is sent. Tokens are the provider's. */
export interface CachedPrompt {
  readonly profile: Profile;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly cacheHitProbability: number;
  /** Tokens of the whole history, evicted content included. Default: `promptTokens`. */
  readonly historyTokens?: number;
  /** Calls of the session so far. Default: 0. */
  readonly calls?: number;
}

/** A prompt, its evictable parts, and the limits of the decision. */
export interface Situation extends CachedPrompt {
  readonly removals: readonly Removal[];
  readonly carried: number;
  /** Value of `carried` when each part, by name, became evictable. Default: the current one. */
  readonly idleSince: Readonly<Record<string, number>>;
  /** Start and freed tokens of pending pins, applied with any rewrite. Default: none. */
  readonly ride?: { readonly start: number; readonly tokens: number } | undefined;
  /** Most extra cost of a rewrite for this call with a warm cache. */
  readonly allowedRewriteCost: number;
  readonly isHeld?: boolean | undefined;
  /** Whether everything evictable is evicted on request, whatever it costs. Default: false. */
  readonly isRequested?: boolean | undefined;
  readonly stopped: boolean;
  readonly windowTokens: number;
  /** Tokens of the window that the prompt may take at worst. Default: its tokens. */
  readonly windowUse?: number;
  /** Tokens from which the window counts as full. Default: those of a window that was never full. */
  readonly fullFrom?: number;
}

export interface Decided {
  readonly evicted: readonly Removal[];
  /** The best rewrite, made or not. Absent: nothing is evictable. */
  readonly decision?: Decision;
}

/** Returns the best rewrite and whether to make it (docs/mechanisms.md, Rewrite rule). */
export function decide(situation: Situation): Decided {
  const { cacheHitProbability, allowedRewriteCost, stopped, isHeld = false, isRequested = false } = situation;
  const removable = situation.removals.filter(({ evicts }) => evicts);
  if (isRequested && !stopped && removable.length > 0) {
    return { evicted: removable, decision: { ...forced(removable, situation), cause: "requested" } };
  }
  const cuts = isHeld ? [] : weighCuts(removable, situation);
  const paid = cuts.filter(({ carryingCost, rewriteCost, warmRewriteCost }) =>
    carryingCost >= rewriteCost && (carryingCost > 0 || warmRewriteCost <= 0)
  );
  const limit = Math.max(0, allowedRewriteCost);
  // Cuts grow from first to last: the largest paid one evicts most.
  const cut = stopped ? undefined : paid.findLast(({ wholePrice }) => wholePrice <= limit);
  const decided = ({ tokens, brokenTokens, carryingCost, rewriteCost }: Cut, cause: Decision["cause"]) => ({
    decision: { cause, cacheHitProbability, tokens, brokenTokens, carryingCost, rewriteCost },
  });
  if (cut) return { evicted: removable.slice(cut.first), ...decided(cut, "price") };
  const room = makeRoom(situation);
  if (room.length > 0) return { evicted: room, decision: forced(room, situation) };
  const [nearestPaid] = paid.slice(-1);
  if (nearestPaid) return { evicted: [], ...decided(nearestPaid, stopped ? "stopped" : "loss_limit") };
  if (cuts.length === 0) return { evicted: [] };
  const nearest = cuts.reduce((a, b) =>
    b.carryingCost - b.rewriteCost >= a.carryingCost - a.rewriteCost ? b : a
  );
  return { evicted: [], ...decided(nearest, "wait") };
}

interface Cut extends Omit<Decision, "cause" | "cacheHitProbability"> {
  readonly first: number;
  /** Cost with a warm cache, unless it is surely cold. */
  readonly warmRewriteCost: number;
  /** Cost including pending pins, which aren't evaluated but paid. */
  readonly wholePrice: number;
}

/**
 * Returns all rewrites, from the newest part backwards, because a later cut keeps a longer prefix. Carrying
 * cost against rewrite cost is the ski-rental rule (Karlin, Manasse, Rudolph, Sleator 1988). At a steady pace
 * this is also the interval of the economic order quantity (Harris 1913): the carrying cost of one interval
 * equals the cost of ending it.
 */
function weighCuts(
  removable: readonly Removal[],
  { carried, idleSince, ride, ...prompt }: Situation,
): readonly Cut[] {
  const { profile: { write, read }, cacheHitProbability } = prompt;
  const warm = assumedHitProbability(cacheHitProbability);
  const rewriteCostOf = (cacheHitProbability: number, brokenTokens: number, tokens: number) =>
    cacheHitProbability * (write - read) * brokenTokens - write * tokens;
  const cuts: Cut[] = [];
  let [tokens, carryingCost, wholeTokens] = [0, 0, ride?.tokens ?? 0];
  for (let first = removable.length - 1; first >= 0; first--) {
    const removal = removable[first]!;
    const { start, parts } = removal;
    tokens += removal.tokens;
    wholeTokens += removal.tokens;
    // Parts that aren't idle have been worth their carrying cost, so no cut starts there.
    if (!removal.idle) continue;
    carryingCost += parts.reduce(
      (sum, { name, tokens }) => sum + tokens * (carried - (idleSince[name] ?? carried)),
      0,
    );
    const brokenTokens = brokenBy(start, prompt);
    const warmRewriteCost = rewriteCostOf(warm, brokenTokens, tokens);
    cuts.push({
      first,
      tokens,
      brokenTokens,
      carryingCost,
      rewriteCost: rewriteCostOf(cacheHitProbability, brokenTokens, tokens),
      warmRewriteCost,
      wholePrice: ride
        ? rewriteCostOf(warm, brokenBy(Math.min(start, ride.start), prompt), wholeTokens)
        : warmRewriteCost,
    });
  }
  return cuts;
}

function brokenBy(
  start: number,
  { profile, promptTokens, cachedTokens }: Omit<CachedPrompt, "cacheHitProbability">,
): number {
  const remainingTokens = servedTokens(profile, { promptTokens, sharedTokens: start });
  return Math.max(0, cachedTokens - remainingTokens);
}

export function isSurelyCold(cacheHitProbability: number): boolean {
  return cacheHitProbability < SURELY_COLD;
}

/** Returns the cache hit probability for the loss limit: 1, unless the cache is surely cold. */
export function assumedHitProbability(cacheHitProbability: number): number {
  return isSurelyCold(cacheHitProbability) ? cacheHitProbability : 1;
}

/**
 * Returns the tokens from which a window is full: after it was emptied, only after some growth, while an
 * answer fits.
 */
export function fullFromTokens(windowTokens: number, emptiedTokens = 0): number {
  const least = WINDOW_SHARE * windowTokens;
  if (emptiedTokens === 0 || windowTokens === Infinity) return least;
  const most = windowTokens - Math.min(ANSWER_TOKENS, ANSWER_SHARE * windowTokens);
  return Math.max(least, Math.min(most, emptiedTokens + REFILL_SHARE * windowTokens));
}

/**
 * Returns the parts evicted from a full window at the lowest total cost; none if the window isn't full or
 * evictions don't help.
 */
function makeRoom(situation: Situation): readonly Removal[] {
  const { windowTokens, promptTokens, windowUse = promptTokens } = situation;
  const { fullFrom = fullFromTokens(windowTokens) } = situation;
  if (windowUse <= fullFrom) return [];
  const those = situation.removals.filter(({ tokens }) => tokens > 0);
  const scale = promptTokens > 0 ? windowUse / promptTokens : 1;
  const all = scale * those.reduce((sum, { tokens }) => sum + tokens, 0);
  const fits = (share: number) => windowUse - all <= share * windowTokens;
  for (const share of [ROOMY_SHARE, WINDOW_SHARE, 1]) {
    if (fits(share)) return cheapestRoom(those, (windowUse - share * windowTokens) / scale, situation);
  }
  return all >= WORTHWHILE_SHARE * windowUse ? those : [];
}

/**
 * Returns the parts that free enough tokens at the lowest cost per token by which the session still grows,
 * probably as many as it has: `once · (1/history + 1/freed)`, because the window is emptied again whenever the
 * freed tokens have come back, less the reads of the freed tokens, of which half is absent on average.
 */
function cheapestRoom(
  removals: readonly Removal[],
  neededTokens: number,
  prompt: CachedPrompt,
): readonly Removal[] {
  let best: { readonly cost: number; readonly removals: readonly Removal[] } | undefined;
  for (let back = 1; back < 2 * removals.length; back *= 2) {
    const rest = removals.slice(-back);
    const start = rest[0]?.start ?? 0;
    const byWorth = rest.toSorted((a, b) => a.loss / a.tokens - b.loss / b.tokens);
    let freed = 0;
    let loss = 0;
    for (const [at, removal] of byWorth.entries()) {
      freed += removal.tokens;
      loss += removal.loss;
      if (freed < neededTokens) continue;
      const cost = growthCost({ start, freed, more: loss }, prompt);
      if (cost < (best?.cost ?? Infinity)) best = { cost, removals: byWorth.slice(0, at + 1) };
    }
  }
  return best?.removals.toSorted((a, b) => a.start - b.start) ?? removals;
}

/**
 * Returns the cost per token of growth of rewrites that remove `freed` tokens from `start` on each time the window
 * is full, and cost `more` besides caching the rest again.
 */
export function growthCost(
  { start, freed, more }: { readonly start: number; readonly freed: number; readonly more: number },
  { profile: { write, read }, promptTokens, cachedTokens, cacheHitProbability, ...prompt }: CachedPrompt,
): number {
  const { historyTokens = promptTokens, calls = 0 } = prompt;
  const once = cacheHitProbability * (write - read) * Math.max(0, cachedTokens - start - freed) + more;
  return once * (1 / historyTokens + 1 / freed) - read * (freed / 2) * calls / historyTokens;
}

function forced(room: readonly Removal[], prompt: CachedPrompt): Decision {
  const { profile: { write, read }, cacheHitProbability } = prompt;
  const tokens = room.reduce((sum, removal) => sum + removal.tokens, 0);
  const brokenTokens = brokenBy(room[0]?.start ?? 0, prompt);
  const rewriteCost = cacheHitProbability * (write - read) * brokenTokens - write * tokens;
  return { cause: "window", cacheHitProbability, tokens, brokenTokens, carryingCost: 0, rewriteCost };
}

export function quotePrompt(
  removals: readonly Removal[],
  { profile, promptTokens, cachedTokens, cacheHitProbability }: CachedPrompt,
): Quote {
  const quoted = (promptTokens: number, cachedTokens: number): QuotedPrompt => ({
    promptTokens,
    cachedTokens,
    warmCostUnits: promptCost(profile, { promptTokens, cachedTokens }),
    coldCostUnits: promptCost(profile, { promptTokens, cachedTokens: 0 }),
  });
  let removed = 0;
  for (const { tokens } of removals) removed += tokens;
  const [first] = removals;
  const cachedAfter = first
    ? Math.min(cachedTokens, servedTokens(profile, { promptTokens, sharedTokens: first.start }))
    : cachedTokens;
  return {
    asIs: quoted(Math.round(promptTokens), Math.round(cachedTokens)),
    rewritten: quoted(Math.max(0, Math.round(promptTokens - removed)), cachedAfter),
    cacheHitProbability,
  };
}

/** Calls and prompt tokens of a session of unknown length. */
const USUAL_CALLS = 30;
const USUAL_TOKENS = 20_000;

const FINDS = 3;
const FOUND = 3;

const TOOLS_SHARE = 0.1;

/** Deferrable definitions of tools. */
export interface DeferOptions {
  readonly fullTokens: number;
  /** Tokens of their replacement: a list of names, and the tools that look up and call the rest. */
  readonly shortTokens: number;
  readonly count: number;
  readonly profile: Pick<Profile, "write" | "read">;
  readonly windowTokens?: number;
}

/**
 * Returns whether a new session should defer these definitions: if carrying them costs more than the lookups
 * of a usual session, or if they exceed a tenth of the window.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { worthDeferring } from "@tare/planner";
 *
 * const profile = profileNamed("openai");
 * const isWorth = (fullTokens: number) => worthDeferring({ fullTokens, shortTokens: 1_000, count: 50, profile });
 * assertEquals([1_100, 30_000].map(isWorth), [false, true]);
 * ```
 */
export function worthDeferring(
  { fullTokens, shortTokens, count, profile: { write, read }, windowTokens = Infinity }: DeferOptions,
): boolean {
  const won = fullTokens - shortTokens;
  if (fullTokens > TOOLS_SHARE * windowTokens) return won > 0;
  const found = FOUND * fullTokens / count;
  const looking = USUAL_TOKENS * read + found * (write + read * USUAL_CALLS / 2);
  return won * (write + read * (USUAL_CALLS - 1)) > FINDS * looking;
}

export function howMany(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
