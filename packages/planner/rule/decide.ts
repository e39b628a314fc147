import { servedTokens } from "../cache/prefix.ts";
import type { Decision } from "../ledger/entry.ts";
import { promptCost } from "../ledger/ledger.ts";
import type { Quote, QuotedPrompt } from "../prompt_session.ts";
import type { Profile } from "../providers.ts";
import type { Removal } from "../retention/retention.ts";

/** Share of the window from which on price no longer decides. The rest is room for the answer. */
export const WINDOW_SHARE = 0.9;

/** A full window is emptied down to this share, so that it isn't full again at once. */
const ROOMY_SHARE = 0.6;

/** Share of the window that must come in before one that was emptied is full again: a rewrite for less would break as much. */
const REFILL_SHARE = 0.1;

/** Most room for an answer that is kept free at all events, as a share of the window and in tokens. */
const ANSWER_SHARE = 1 / 16;
const ANSWER_TOKENS = 4_096;

/** Share of the prompt that must leave if that can't be: a rewrite for less would come again at the next call. */
const WORTHWHILE_SHARE = 0.1;

/** A cache that is there with less than this probability is not reckoned with. */
const SURELY_COLD = 0.1;

/** What a session remembers of its full window. Plain data. */
export interface FullWindow {
  /** Whether people were told that nothing more can be done about the full window. */
  readonly fullSaid: boolean;
  /** How many summaries have failed, one after the other. */
  readonly failures: number;
  /** Tokens of the whole history from which on a summary is asked for: one that failed isn't tried again at once. */
  readonly askFromTokens: number;
  /** Tokens of the provider's that it was emptied down to the last time. Absent: never. */
  readonly emptiedTokens?: number;
}

export const NEVER_FULL: FullWindow = { fullSaid: false, failures: 0, askFromTokens: 0 };

/** A prompt that is about to be sent. Tokens are the provider's. */
export interface CachedPrompt {
  readonly profile: Profile;
  readonly promptTokens: number;
  /** Of these, tokens that the cache serves if it is still warm. */
  readonly cachedTokens: number;
  /** Probability that it is. */
  readonly alive: number;
}

/** A prompt that is about to be sent, what could leave it, and what bounds the decision. */
export interface Situation extends CachedPrompt {
  /** What could leave, in the order of the prompt. */
  readonly removals: readonly Removal[];
  /** What carrying one token has cost so far. */
  readonly carried: number;
  /** What that was when each part, by its name, could first have left. Default: what it is now. */
  readonly idleSince: Readonly<Record<string, number>>;
  /** What rides along with any rewrite, from where on, and by how many tokens the prompt shrinks for it. Default: nothing. */
  readonly ride?: { readonly start: number; readonly tokens: number } | undefined;
  /** Most that a rewrite may cost this call more than without it, should the cache still be warm. */
  readonly allowedPrice: number;
  readonly isHeld?: boolean | undefined;
  /** Whether all that may leave leaves, whatever it costs, because somebody asks for it. Default: no. */
  readonly isAsked?: boolean | undefined;
  readonly stopped: boolean;
  readonly windowTokens: number;
  /** What the prompt takes of the window: more than its tokens where it may be longer than it seems. Default: its tokens. */
  readonly windowUse?: number;
  /** From so many tokens on the window counts as full. Default: that of one that was never full. */
  readonly fullFrom?: number;
}

export interface Decided {
  /** In the order of the prompt; empty if nothing leaves. */
  readonly leaving: readonly Removal[];
  /** The best rewrite, made or not; absent if nothing could leave. */
  readonly decision?: Decision;
}

/**
 * The best rewrite, and whether to make it. Nothing is bought on the chance alone that the cache is cold: either rent
 * was paid for what leaves, or its leaving costs nothing even if the cache is there. In a full window something leaves
 * whatever it costs.
 */
export function decide(situation: Situation): Decided {
  const { alive, allowedPrice, stopped, isHeld = false, isAsked = false } = situation;
  const removable = situation.removals.filter(({ goes }) => goes);
  if (isAsked && !stopped && removable.length > 0) {
    return { leaving: removable, decision: { ...forced(removable, situation), cause: "asked" } };
  }
  const cuts = isHeld ? [] : weighCuts(removable, situation);
  const paid = cuts.filter(({ rent, price, warmPrice }) => rent >= price && (rent > 0 || warmPrice <= 0));
  const limit = Math.max(0, allowedPrice);
  // The cuts grow from first to last: the largest takes most along for rent that is paid.
  const cut = stopped ? undefined : paid.findLast(({ wholePrice }) => wholePrice <= limit);
  const decided = ({ tokens, brokenTokens, rent, price }: Cut, cause: Decision["cause"]) => ({
    decision: { cause, alive, tokens, brokenTokens, rent, price },
  });
  if (cut) return { leaving: removable.slice(cut.first), ...decided(cut, "price") };
  const room = makeRoom(situation);
  if (room.length > 0) return { leaving: room, decision: forced(room, situation) };
  const [nearestPaid] = paid.slice(-1);
  if (nearestPaid) return { leaving: [], ...decided(nearestPaid, stopped ? "stopped" : "loss_limit") };
  if (cuts.length === 0) return { leaving: [] };
  const nearest = cuts.reduce((a, b) => b.rent - b.price >= a.rent - a.price ? b : a);
  return { leaving: [], ...decided(nearest, "wait") };
}

/** A rewrite that starts at one thing that could leave and takes everything behind it along. */
interface Cut extends Omit<Decision, "cause" | "alive"> {
  /** Position, among what could leave, of the first that goes. */
  readonly first: number;
  /** What the price is if the cache is there; if that is as good as gone, the price. */
  readonly warmPrice: number;
  /** That of the whole rewrite: with what rides along, which is nobody's to weigh, but is paid. */
  readonly wholePrice: number;
}

/**
 * All rewrites of a prompt, from the newest removal backwards, because a cut nearer to the end keeps a longer
 * prefix. A cut that leaves c′ of c cached tokens and takes ΔT tokens out of the prompt has the price
 *
 *     alive · (write − read) · (c − c′) − write · ΔT
 *
 * A rewrite is worth its price as soon as the rent paid equals it: the ski-rental rule (Karlin, Manasse, Rudolph,
 * Sleator 1988). Where tokens become removable at a steady pace this is also the interval of the economic order
 * quantity (Harris 1913): the rent of one interval equals the price of ending it.
 */
function weighCuts(
  removable: readonly Removal[],
  { carried, idleSince, ride, ...prompt }: Situation,
): readonly Cut[] {
  const { profile: { write, read }, alive } = prompt;
  const warm = reckonedAlive(alive);
  const priceOf = (alive: number, brokenTokens: number, tokens: number) =>
    alive * (write - read) * brokenTokens - write * tokens;
  const cuts: Cut[] = [];
  let [tokens, rent, wholeTokens] = [0, 0, ride?.tokens ?? 0];
  for (let first = removable.length - 1; first >= 0; first--) {
    const removal = removable[first]!;
    const { start, parts } = removal;
    tokens += removal.tokens;
    wholeTokens += removal.tokens;
    // What isn't idle only goes along: it has cost nothing that it wasn't worth, and no cut starts there.
    if (!removal.idle) continue;
    rent += parts.reduce(
      (sum, { name, tokens }) => sum + tokens * (carried - (idleSince[name] ?? carried)),
      0,
    );
    const brokenTokens = brokenBy(start, prompt);
    const warmPrice = priceOf(warm, brokenTokens, tokens);
    cuts.push({
      first,
      tokens,
      brokenTokens,
      rent,
      price: priceOf(alive, brokenTokens, tokens),
      warmPrice,
      wholePrice: ride
        ? priceOf(warm, brokenBy(Math.min(start, ride.start), prompt), wholeTokens)
        : warmPrice,
    });
  }
  return cuts;
}

/** Tokens that the cache would have served and that it can't if the prompt changes from here on. */
function brokenBy(
  start: number,
  { profile, promptTokens, cachedTokens }: Omit<CachedPrompt, "alive">,
): number {
  const kept = servedTokens(profile, { promptTokens, sharedTokens: start });
  return Math.max(0, cachedTokens - kept);
}

/** Whether a cache that is there with this probability is not reckoned with. */
export function isSurelyCold(alive: number): boolean {
  return alive < SURELY_COLD;
}

/** The probability that the loss limit reckons with: unless the cache is as good as gone, that it is there. */
export function reckonedAlive(alive: number): number {
  return isSurelyCold(alive) ? alive : 1;
}

/**
 * From how many tokens on a window is full that was emptied to so many: not for what has hardly grown since, as long as
 * there is room for an answer.
 */
export function fullFromTokens(windowTokens: number, emptiedTokens = 0): number {
  const least = WINDOW_SHARE * windowTokens;
  if (emptiedTokens === 0 || windowTokens === Infinity) return least;
  const most = windowTokens - Math.min(ANSWER_TOKENS, ANSWER_SHARE * windowTokens);
  return Math.max(least, Math.min(most, emptiedTokens + REFILL_SHARE * windowTokens));
}

/**
 * What leaves a full window: what costs least for each token of room, counting what is read again behind the first and
 * what the model will miss. Nothing if the window isn't full, or if nothing that can leave would help.
 */
function makeRoom(situation: Situation): readonly Removal[] {
  const { windowTokens, promptTokens, windowUse = promptTokens } = situation;
  const { fullFrom = fullFromTokens(windowTokens) } = situation;
  if (windowUse <= fullFrom) return [];
  const those = situation.removals.filter(({ tokens }) => tokens > 0);
  // A prompt that may be longer than it seems shrinks by more than it seems, too.
  const scale = promptTokens > 0 ? windowUse / promptTokens : 1;
  const all = scale * those.reduce((sum, { tokens }) => sum + tokens, 0);
  const fits = (share: number) => windowUse - all <= share * windowTokens;
  for (const share of [ROOMY_SHARE, WINDOW_SHARE, 1]) {
    if (fits(share)) return cheapestRoom(those, (windowUse - share * windowTokens) / scale, situation);
  }
  return all >= WORTHWHILE_SHARE * windowUse ? those : [];
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

/** A rewrite that isn't a matter of price, in numbers. */
function forced(room: readonly Removal[], prompt: CachedPrompt): Decision {
  const { profile: { write, read }, alive } = prompt;
  const tokens = room.reduce((sum, removal) => sum + removal.tokens, 0);
  const brokenTokens = brokenBy(room[0]?.start ?? 0, prompt);
  const price = alive * (write - read) * brokenTokens - write * tokens;
  return { cause: "window", alive, tokens, brokenTokens, rent: 0, price };
}

/** Quotes a prompt as it stands, and without these removals, which stand in the order of the prompt. */
export function quotePrompt(
  removals: readonly Removal[],
  { profile, promptTokens, cachedTokens, alive }: CachedPrompt,
): Quote {
  const quoted = (promptTokens: number, cachedTokens: number): QuotedPrompt => ({
    promptTokens,
    cachedTokens,
    warmTokenUnits: promptCost(profile, { promptTokens, cachedTokens }),
    coldTokenUnits: promptCost(profile, { promptTokens, cachedTokens: 0 }),
  });
  let removed = 0;
  for (const { tokens } of removals) removed += tokens;
  const [first] = removals;
  const kept = first
    ? Math.min(cachedTokens, servedTokens(profile, { promptTokens, sharedTokens: first.start }))
    : cachedTokens;
  return {
    asIs: quoted(Math.round(promptTokens), Math.round(cachedTokens)),
    rewritten: quoted(Math.max(0, Math.round(promptTokens - removed)), kept),
    alive,
  };
}

/** A session whose length nobody knows yet: so many model calls, with a prompt of so many tokens. */
const USUAL_CALLS = 30;
const USUAL_TOKENS = 20_000;

/** How often such a session looks for tools, and how many it is shown each time. */
const FINDS = 3;
const FOUND = 3;

/** Share of the window that definitions may take at most, whatever they cost. */
const TOOLS_SHARE = 0.1;

/** Definitions of tools that may be deferred, and where. */
export interface DeferOptions {
  /** Tokens of the definitions. */
  readonly fullTokens: number;
  /** Tokens of what would replace them: a list of names, and the tools by which a model sees and calls the rest. */
  readonly shortTokens: number;
  readonly count: number;
  readonly profile: Pick<Profile, "write" | "read">;
  /** Default: unknown, and no limit. */
  readonly windowTokens?: number;
}

/**
 * Returns whether a new session should defer these definitions: if carrying them costs more than a session of usual length
 * pays for looking tools up, or if they take over a tenth of the window.
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

/** A number of things: `1 result`, `2 results`. */
export function howMany(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
