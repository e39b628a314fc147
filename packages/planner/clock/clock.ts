import { HOUR_MS } from "../cache/prefix.ts";
import type { PingSent, RequestMade } from "../ledger/entry.ts";
import type { Profile } from "../providers.ts";
import { mayUpgrade, type UpgradeOutcome, type UpgradeTrial } from "./upgrade.ts";

/** What an idle conversation waits for, as far as who leads it knows. */
export interface Idle {
  /** The time, by the same clock as that of the calls. */
  readonly nowMs: number;
  /**
   * Who is to go on: a `tool` that runs, a `helper` that works, or a `person`: the turn is over, was interrupted or refused,
   * or a question is open.
   */
  readonly pending: "tool" | "helper" | "person";
  /** Whether the last calls committed or pushed: fewer come back behind that. Default: no. */
  readonly hasCommitted?: boolean;
  /** Whether the client says when a conversation is over, and this one isn't. Default: nobody says it. */
  readonly tellsEnd?: boolean;
  /** Whether the model thinks with a fixed budget: then nothing can be asked for without a long reply. Default: no. */
  readonly thinksByBudget?: boolean;
  /**
   * Whether somebody who knows what that costs has asked to keep it warm until later: then it is pinged as long as its cache
   * hasn't lapsed, whatever the chances and whatever it may lose. Default: no.
   */
  readonly isAsked?: boolean;
  /** Content blocks of the reply that an upgrade would mark: the provider looks back over 20. Default: few. */
  readonly answerBlocks?: number;
  /** What upgrades have shown with this provider, key and model. Default: none may be asked for. */
  readonly trial?: UpgradeTrial;
}

/**
 * A ping to be made. `exact`: the newest request again, byte for byte in all that the cache covers, without a reply.
 * `upgrade`: that, the finished reply with an hour's mark on its last block that isn't thinking, and behind it a user's `.`, or a
 * `.` in place of each result that its calls still wait for; no mark of five minutes in front.
 */
export interface Ping extends Pick<PingSent, "type"> {
  /** When; never before the time at which it was asked for. */
  readonly atMs: number;
  /** What it costs if the prefix is there. */
  readonly tokenUnits: number;
  /** For how many milliseconds it keeps the prefix; none is made sooner behind it. */
  readonly keepsMs: number;
}

/**
 * What a conversation's requests and pings have shown of how warm its prefix is, and what pings have come to. Plain data;
 * tokens are the provider's, costs in the price of one uncached input token.
 */
export interface ClockState {
  /** When the newest request was made: an entry lives from the start of the request that last used it. */
  readonly askedMs: number;
  /** When the newest request or ping was. */
  readonly usedMs: number;
  /** Tokens of that request's prompt: the provider holds them from its start on. */
  readonly heldTokens: number;
  readonly answerTokens: number;
  /** Of these, and of the reply behind them, tokens that last for an hour since then. */
  readonly hourTokens: number;
  readonly pings: number;
  /** Whether the newest of them was an upgrade: then there are no more until the next request. */
  readonly isUpgraded: boolean;
  /** Pings in a row that found nothing to read. */
  readonly lost: number;
  readonly spent: number;
  /** What they have saved. */
  readonly credited: number;
  /** What the conversation would have cost without them. */
  readonly without: number;
}

export const NEW_CLOCK: ClockState = {
  askedMs: 0,
  usedMs: 0,
  heldTokens: 0,
  answerTokens: 0,
  hourTokens: 0,
  pings: 0,
  isUpgraded: false,
  lost: 0,
  spent: 0,
  credited: 0,
  without: 0,
};

/** So long before a prefix expires it is used again. */
const MARGIN_MS = 20_000;

/** Pings less their credits never exceed this share of what the conversation would have cost without them. */
const NET_SHARE = 0.05;

/**
 * So much of that share an upgrade leaves unspent as long as nothing was credited: small sessions often end where they pause.
 * Chosen on one half of the recordings; on the other it costs nothing, and no session loses over 2 %.
 */
const RESERVE = 4_000;

/** An upgrade's reply has fewer blocks: the provider looks back no further for what it holds. */
const LOOK_BACK = 20;

/** Pings in a row that found nothing after which a conversation gets no more. */
const MOST_LOST = 2;

/**
 * Chances that a person comes back within the next 280 s who has been away for 280 s, 560 s and so on, of 187 pauses in
 * recorded sessions: where nobody says that a session is over, and where that is said.
 */
const RETURNS = [0.25, 0.16, 0.08, 0.09, 0.05, 0.07, 0.01, 0.04];
const TOLD_RETURNS = [0.36, 0.27, 0.17, 0.2, 0.14, 0.19, 0.04, 0.13];

/** Of 33 tools that ran for over 280 s, 13 were done within the next 280 s. Most of the others waited for a permission. */
const MOST_PINGS = 4;

/**
 * By the chances alone it would be two: a third is worth 0.005 of the prefix less than nothing. On one half of the recordings it
 * saves 1.3 %, on the other it costs nothing.
 */
const PERSON_PINGS = 3;

const COMMITTED_PINGS = 2;

interface ClockOptions {
  readonly profile: Profile;
  /** Tokens that would leave if the next request found the cache cold: then a lapse loses less. Default: none. */
  readonly prunedTokens?: number;
}

/** A clock of one conversation, as {@linkcode pingClock} makes it. */
export interface IdleClock {
  /** Returns the next ping while nothing is requested; `undefined` if its cache is to lapse. */
  next(idle: Idle): Ping | undefined;
  /** Records a request that succeeded, and returns what it shows of an upgrade. */
  requested(request: RequestMade): UpgradeOutcome | undefined;
  /** Records a ping that was answered and its cost, and returns what it shows of an upgrade. */
  pinged(ping: PingSent & { readonly tokenUnits: number }): UpgradeOutcome | undefined;
}

/**
 * Returns the clock of one conversation whose prompts are made elsewhere; a prompt session has its own.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { pingClock } from "@tare/planner/internal/parts";
 *
 * const clock = pingClock(profileNamed("anthropic-5m"));
 * const usage = { promptTokens: 100_000, cachedTokens: 0, outputTokens: 100 };
 * clock.requested({ atMs: 0, usage, sharedTokens: 0, tokenUnits: 1_000_000 });
 * assertEquals(clock.next({ nowMs: 0, pending: "tool" })?.atMs, 280_000);
 * ```
 */
export function pingClock(profile: Profile): IdleClock {
  let state = NEW_CLOCK;
  return {
    next: (idle) => nextPing(state, idle, { profile }),
    requested(request) {
      const { clock, upgrade } = afterRequest(state, request, profile);
      state = clock;
      return upgrade;
    },
    pinged(ping) {
      const { clock, upgrade } = afterPing(state, ping);
      state = clock;
      return upgrade;
    },
  };
}

/**
 * Returns the next ping of an idle conversation; nothing if its cache is to lapse or has lapsed: then the next request prunes
 * for nothing.
 */
export function nextPing(clock: ClockState, idle: Idle, options: ClockOptions): Ping | undefined {
  const { profile } = options;
  const { ttlMs, writes, minTokens, read } = profile;
  const { usedMs, heldTokens, answerTokens, pings, isUpgraded, lost } = clock;
  const { nowMs, trial, thinksByBudget = false, answerBlocks = 1, isAsked = false } = idle;
  // Only who tells short writes from an hour's lives from use to use.
  if (!writes || ttlMs >= HOUR_MS || thinksByBudget || heldTokens < minTokens) return undefined;
  if (isUpgraded || lost >= MOST_LOST || nowMs > usedMs + ttlMs) return undefined;
  const atMs = Math.max(nowMs, usedMs + ttlMs - MARGIN_MS);
  const lossTokens = Math.max(0, heldTokens - hourTokensAt(clock, atMs));
  if (lossTokens <= (1 - WARM_SHARE) * heldTokens) return undefined;
  const plan = (type: Ping["type"], tokenUnits: number) => {
    const keepsMs = (type === "upgrade" ? HOUR_MS : ttlMs) - MARGIN_MS;
    return isAsked || isCovered(clock, { type, tokenUnits })
      ? { type, atMs, tokenUnits, keepsMs }
      : undefined;
  };
  // Where an hour is to be had, five minutes for nearly as much aren't worth it.
  if (trial && mayUpgrade(trial, heldTokens) && answerTokens > 0 && answerBlocks < LOOK_BACK) {
    return isAsked || pings < MOST_PINGS
      ? plan("upgrade", read * heldTokens + writes.hour * answerTokens)
      : undefined;
  }
  return isAsked || pings < mostPings(clock, idle, { ...options, lossTokens })
    ? plan("exact", read * heldTokens)
    : undefined;
}

function mostPings(
  { heldTokens }: ClockState,
  { pending, hasCommitted = false, tellsEnd = false }: Idle,
  { profile: { read, write }, lossTokens, prunedTokens = 0 }: ClockOptions & { readonly lossTokens: number },
): number {
  if (pending !== "person") return MOST_PINGS;
  // What would leave in a cold cache isn't written again; but what comes back to a warm one carries it on.
  const lost = write * Math.max(0, lossTokens - prunedTokens) - read * lossTokens;
  const loss = lost / ((write - read) * heldTokens);
  const worth = pingsWorth(tellsEnd ? TOLD_RETURNS : RETURNS, { read, write, loss });
  const most = tellsEnd || loss < WARM_SHARE ? worth : PERSON_PINGS;
  return hasCommitted ? Math.min(most, COMMITTED_PINGS) : most;
}

/** Whether a ping's price is within what pings may lose. */
function isCovered(
  { spent, credited, without }: ClockState,
  { type, tokenUnits }: Pick<Ping, "type" | "tokenUnits">,
): boolean {
  const reserve = type === "upgrade" && credited === 0 ? RESERVE : 0;
  return spent - credited + tokenUnits + reserve <= NET_SHARE * without;
}

/**
 * Returns how often an idle conversation is kept warm at most, by the chances of each ping in turn that it comes back:
 * as long as
 *
 *     V(k) = max(0, −read + (write − read) · loss · q(k) + (1 − q(k)) · V(k + 1))
 *
 * is above 0, where `loss` is the share of the prefix that a lapse would have written again. Optimal stopping by backward
 * induction (Bellman 1957).
 */
export function pingsWorth(
  chances: readonly number[],
  { read, write, loss }: { readonly read: number; readonly write: number; readonly loss: number },
): number {
  let [value, pings] = [0, 0];
  for (let k = chances.length - 1; k >= 0; k--) {
    const chance = chances[k] ?? 0;
    value = Math.max(0, (write - read) * loss * chance - read + (1 - chance) * value);
    // What isn't worth it ends all that would come behind it.
    pings = value > 0 ? pings + 1 : 0;
  }
  return pings;
}

/** From this share of a prefix on it counts as all of it. */
const WARM_SHARE = 0.9;

/** A bill for an hour may differ from what the reply takes by so many tokens, or half of them: what stands behind the mark isn't in it. */
const BILL_TOKENS = 100;

/** Tokens that are there after an idle time only because they last for an hour. */
function hourTokensAt({ hourTokens, usedMs }: ClockState, atMs: number): number {
  return atMs - usedMs <= HOUR_MS ? hourTokens : 0;
}

interface AfterRequest {
  readonly clock: ClockState;
  /** Tokens that were served only because pings had kept them warm. */
  readonly keptTokens: number;
  readonly credit: number;
  readonly upgrade?: UpgradeOutcome;
}

/**
 * Takes note of a request. What pings kept warm is credited to them where the cache would have expired without: writing
 * less reading of what it served of the prefix that the request shares with the one before.
 */
export function afterRequest(clock: ClockState, request: RequestMade, profile: Profile): AfterRequest {
  const { atMs, usage, sharedTokens, tokenUnits } = request;
  const { askedMs, usedMs, pings, isUpgraded, heldTokens } = clock;
  const { ttlMs, write, read } = profile;
  const hourTokens = hourTokensAt(clock, atMs);
  const wouldBeCold = heldTokens > 0 && atMs - askedMs >= ttlMs;
  const warmedTokens = !wouldBeCold ? 0 : pings > 0 ? Infinity : hourTokens;
  const keptTokens = Math.min(usage.cachedTokens, sharedTokens, warmedTokens);
  const credit = (write - read) * keptTokens;
  // What begins otherwise by now says nothing of the entry.
  const isSame = hourTokens > 0 && sharedTokens >= WARM_SHARE * hourTokens;
  const isThere = isSame && usage.cachedTokens >= WARM_SHARE * hourTokens;
  const isReturn = isSame && isUpgraded && atMs - usedMs > ttlMs;
  return {
    clock: {
      ...clock,
      askedMs: atMs,
      usedMs: atMs,
      heldTokens: usage.promptTokens,
      answerTokens: usage.outputTokens,
      hourTokens: isThere ? hourTokens : 0,
      pings: 0,
      isUpgraded: false,
      credited: clock.credited + credit,
      without: clock.without + tokenUnits + credit,
    },
    keptTokens,
    credit,
    ...(isReturn && { upgrade: { of: "return", isGood: isThere } }),
  };
}

interface AfterPing {
  readonly clock: ClockState;
  /** Whether it read the prefix; else it wrote it anew, and has kept nothing warm. */
  readonly isWarm: boolean;
  readonly upgrade?: UpgradeOutcome;
}

/** Takes note of a ping. One that failed and cost nothing was none. */
export function afterPing(
  clock: ClockState,
  { type, atMs, usage, tokenUnits }: PingSent & { readonly tokenUnits: number },
): AfterPing {
  const { promptTokens, cachedTokens, hourWriteTokens = 0 } = usage;
  const isWarm = cachedTokens >= WARM_SHARE * clock.heldTokens;
  // All that wasn't read, but for the few tokens behind the mark.
  const dueTokens = promptTokens - cachedTokens;
  const isForAnHour = hourWriteTokens > 0 &&
    Math.abs(hourWriteTokens - dueTokens) <= Math.max(BILL_TOKENS, dueTokens / 2);
  return {
    clock: {
      ...clock,
      usedMs: atMs,
      hourTokens: isForAnHour ? cachedTokens + hourWriteTokens : isWarm ? clock.hourTokens : 0,
      pings: clock.pings + 1,
      isUpgraded: isForAnHour,
      lost: isWarm ? 0 : clock.lost + 1,
      spent: clock.spent + tokenUnits,
    },
    isWarm,
    // Of a prefix that was gone all is written: that is no upgrade.
    ...(type === "upgrade" && isWarm && { upgrade: { of: "bill", isGood: isForAnHour } }),
  };
}
