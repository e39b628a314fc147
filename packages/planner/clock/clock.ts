import { HOUR_MS } from "../cache/prefix.ts";
import type { RequestMade, SentKeepAlive } from "../ledger/entry.ts";
import type { Profile } from "../providers.ts";
import { mayUpgrade, type UpgradeOutcome, type UpgradeTrial } from "./upgrade.ts";

/** State of an idle conversation, as far as the caller knows it. */
export interface Idle {
  readonly nowMs: number;
  /**
   * The awaited party: a running `tool`, a working `subagent`, or the `user`: the turn is over, was
   * interrupted or refused, or a question is open.
   */
  readonly pending: "tool" | "subagent" | "user";
  /** Whether the last calls committed or pushed, which makes a return less likely. Default: false. */
  readonly hasCommitted?: boolean;
  /** Whether the client reports the end of conversations, and hasn't for this one. Default: false. */
  readonly reportsEnd?: boolean;
  /** Whether the model reasons with a fixed budget; no short request is possible then. Default: false. */
  readonly thinksByBudget?: boolean;
  /**
   * Whether the user accepted the cost of keeping the cache alive until later. Keep-alive requests continue
   * until the cache expires, whatever they cost. Default: false.
   */
  readonly isRequested?: boolean;
  /**
   * Content blocks of the reply that an extended keep-alive would mark; the provider looks back over 20.
   * Default: 1.
   */
  readonly answerBlocks?: number;
  /** Evidence on extended keep-alive for this provider, key and model. Default: none is requested. */
  readonly trial?: UpgradeTrial;
}

/**
 * Planned keep-alive request. `exact` repeats the newest request, byte for byte in all that the cache covers,
 * without a reply. `upgrade` (extended keep-alive) adds the finished reply with an hour's breakpoint on its
 * last block that isn't thinking, then a user's `.`, or a `.` per pending result; it has no five-minute
 * breakpoint before that.
 */
export interface KeepAliveRequest extends Pick<SentKeepAlive, "type"> {
  readonly atMs: number;
  /** Cost if the prefix is cached. */
  readonly costUnits: number;
  /** Milliseconds of the extended lifetime; no other is made within them. */
  readonly keepsMs: number;
}

/**
 * Cache state of a conversation and totals of its keep-alive requests. Plain data; tokens are the provider's,
 * costs in cost units.
 */
export interface ClockState {
  /** Start of the newest request, from which its cache entry lives. */
  readonly requestedAtMs: number;
  readonly usedMs: number;
  /** Prompt tokens of the newest request, which the provider caches from its start on. */
  readonly heldTokens: number;
  readonly answerTokens: number;
  /** Tokens of these and the reply with a lifetime of one hour. */
  readonly hourTokens: number;
  readonly keepAliveRequests: number;
  /** Whether the newest was an extended keep-alive; no more follow until the next request. */
  readonly isUpgraded: boolean;
  /** Consecutive keep-alive requests that found nothing cached. */
  readonly lost: number;
  readonly spent: number;
  readonly credited: number;
  readonly baseline: number;
}

export const NEW_CLOCK: ClockState = {
  requestedAtMs: 0,
  usedMs: 0,
  heldTokens: 0,
  answerTokens: 0,
  hourTokens: 0,
  keepAliveRequests: 0,
  isUpgraded: false,
  lost: 0,
  spent: 0,
  credited: 0,
  baseline: 0,
};

const MARGIN_MS = 20_000;

/** Most net cost of keep-alive requests, as a share of the conversation's cost without them. */
const NET_SHARE = 0.05;

/**
 * Part of that share that an extended keep-alive leaves unspent until something was credited: small sessions
 * often end where they pause. Chosen on one half of the recordings; on the other it costs nothing, and no
 * session loses over 2 %.
 */
const RESERVE = 4_000;

const LOOK_BACK = 20;

const MAX_LOST = 2;

/**
 * Probabilities that a user returns within the next 280 s after 280 s, 560 s and so on, from 187 pauses in
 * recorded sessions: if the end of a session isn't reported, and if it is.
 */
const RETURNS = [0.25, 0.16, 0.08, 0.09, 0.05, 0.07, 0.01, 0.04];
const REPORTED_RETURNS = [0.36, 0.27, 0.17, 0.2, 0.14, 0.19, 0.04, 0.13];

/** Thirteen of 33 tools that ran for over 280 s ended within the next 280 s. Most others waited for approval. */
const MAX_PINGS = 4;

/**
 * The probabilities alone would give two. A third loses 0.005 of the prefix on average; on one half of the
 * recordings it saves 1.3 %, on the other it costs nothing.
 */
const USER_KEEP_ALIVES = 3;

const COMMITTED_PINGS = 2;

interface ClockOptions {
  readonly profile: Profile;
  /** Tokens that would be evicted if the next request found the cache cold. Default: 0. */
  readonly prunedTokens?: number;
}

/** Clock of one conversation. */
export interface IdleClock {
  next(idle: Idle): KeepAliveRequest | undefined;
  requested(request: RequestMade): UpgradeOutcome | undefined;
  recordKeepAlive(request: SentKeepAlive & { readonly costUnits: number }): UpgradeOutcome | undefined;
}

/**
 * Returns the clock of one conversation whose prompts are made elsewhere; a prompt session has its own.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { keepAliveClock } from "@tare/planner/internal/parts";
 *
 * const clock = keepAliveClock(profileNamed("anthropic-5m"));
 * const usage = { promptTokens: 100_000, cachedTokens: 0, outputTokens: 100 };
 * clock.requested({ atMs: 0, usage, sharedTokens: 0, costUnits: 1_000_000 });
 * assertEquals(clock.next({ nowMs: 0, pending: "tool" })?.atMs, 280_000);
 * ```
 */
export function keepAliveClock(profile: Profile): IdleClock {
  let state = NEW_CLOCK;
  return {
    next: (idle) => nextKeepAlive(state, idle, { profile }),
    requested(request) {
      const { clock, upgrade } = afterRequest(state, request, profile);
      state = clock;
      return upgrade;
    },
    recordKeepAlive(request) {
      const { clock, upgrade } = afterKeepAlive(state, request);
      state = clock;
      return upgrade;
    },
  };
}

/**
 * Returns the next keep-alive request of an idle conversation; `undefined` if its cache may expire or has
 * expired.
 */
export function nextKeepAlive(
  clock: ClockState,
  idle: Idle,
  options: ClockOptions,
): KeepAliveRequest | undefined {
  const { profile } = options;
  const { ttlMs, writes, minTokens, read } = profile;
  const { usedMs, heldTokens, answerTokens, keepAliveRequests, isUpgraded, lost } = clock;
  const { nowMs, trial, thinksByBudget = false, answerBlocks = 1, isRequested = false } = idle;
  // Only profiles with write prices distinguish short writes from an hour's and refresh entries by use.
  if (!writes || ttlMs >= HOUR_MS || thinksByBudget || heldTokens < minTokens) return undefined;
  if (isUpgraded || lost >= MAX_LOST || nowMs > usedMs + ttlMs) return undefined;
  const atMs = Math.max(nowMs, usedMs + ttlMs - MARGIN_MS);
  const lossTokens = Math.max(0, heldTokens - hourTokensAt(clock, atMs));
  if (lossTokens <= (1 - WARM_SHARE) * heldTokens) return undefined;
  const plan = (type: KeepAliveRequest["type"], costUnits: number) => {
    const keepsMs = (type === "upgrade" ? HOUR_MS : ttlMs) - MARGIN_MS;
    return isRequested || isCovered(clock, { type, costUnits })
      ? { type, atMs, costUnits, keepsMs }
      : undefined;
  };
  // Where an hour can be had, five minutes for nearly the same price aren't worth it.
  if (trial && mayUpgrade(trial, heldTokens) && answerTokens > 0 && answerBlocks < LOOK_BACK) {
    return isRequested || keepAliveRequests < MAX_PINGS
      ? plan("upgrade", read * heldTokens + writes.hour * answerTokens)
      : undefined;
  }
  return isRequested || keepAliveRequests < mostRequests(clock, idle, { ...options, lossTokens })
    ? plan("exact", read * heldTokens)
    : undefined;
}

function mostRequests(
  { heldTokens }: ClockState,
  { pending, hasCommitted = false, reportsEnd = false }: Idle,
  { profile: { read, write }, lossTokens, prunedTokens = 0 }: ClockOptions & { readonly lossTokens: number },
): number {
  if (pending !== "user") return MAX_PINGS;
  // Tokens evicted in a cold cache aren't written again, but a warm cache carries them further.
  const lost = write * Math.max(0, lossTokens - prunedTokens) - read * lossTokens;
  const loss = lost / ((write - read) * heldTokens);
  const worth = keepAliveWorth(reportsEnd ? REPORTED_RETURNS : RETURNS, { read, write, loss });
  const most = reportsEnd || loss < WARM_SHARE ? worth : USER_KEEP_ALIVES;
  return hasCommitted ? Math.min(most, COMMITTED_PINGS) : most;
}

function isCovered(
  { spent, credited, baseline }: ClockState,
  { type, costUnits }: Pick<KeepAliveRequest, "type" | "costUnits">,
): boolean {
  const reserve = type === "upgrade" && credited === 0 ? RESERVE : 0;
  return spent - credited + costUnits + reserve <= NET_SHARE * baseline;
}

/**
 * Returns the most keep-alive requests that pay, given the probability q(k) before each that the conversation
 * returns: as long as
 *
 *     V(k) = max(0, −read + (write − read) · loss · q(k) + (1 − q(k)) · V(k + 1))
 *
 * is above 0, where `loss` is the share of the prefix that would be written again after expiry. Optimal
 * stopping by backward induction (Bellman 1957).
 */
export function keepAliveWorth(
  chances: readonly number[],
  { read, write, loss }: { readonly read: number; readonly write: number; readonly loss: number },
): number {
  let [value, keepAliveRequests] = [0, 0];
  for (let k = chances.length - 1; k >= 0; k--) {
    const chance = chances[k] ?? 0;
    value = Math.max(0, (write - read) * loss * chance - read + (1 - chance) * value);
    // The first that doesn't pay ends all later ones.
    keepAliveRequests = value > 0 ? keepAliveRequests + 1 : 0;
  }
  return keepAliveRequests;
}

const WARM_SHARE = 0.9;

/**
 * Tolerance of an hour's bill, in tokens (or half of the reply): text after the breakpoint isn't part of it.
 */
const BILL_TOKENS = 100;

function hourTokensAt({ hourTokens, usedMs }: ClockState, atMs: number): number {
  return atMs - usedMs <= HOUR_MS ? hourTokens : 0;
}

interface AfterRequest {
  readonly clock: ClockState;
  readonly retainedTokens: number;
  readonly credit: number;
  readonly upgrade?: UpgradeOutcome;
}

/**
 * Records a request. A prefix that would have expired credits keep-alive requests with the write price less
 * the read price of its served tokens that the request shares with the previous one.
 */
export function afterRequest(clock: ClockState, request: RequestMade, profile: Profile): AfterRequest {
  const { atMs, usage, sharedTokens, costUnits } = request;
  const { requestedAtMs, usedMs, keepAliveRequests, isUpgraded, heldTokens } = clock;
  const { ttlMs, write, read } = profile;
  const hourTokens = hourTokensAt(clock, atMs);
  const wouldBeCold = heldTokens > 0 && atMs - requestedAtMs >= ttlMs;
  const warmedTokens = !wouldBeCold ? 0 : keepAliveRequests > 0 ? Infinity : hourTokens;
  const retainedTokens = Math.min(usage.cachedTokens, sharedTokens, warmedTokens);
  const credit = (write - read) * retainedTokens;
  const isSame = hourTokens > 0 && sharedTokens >= WARM_SHARE * hourTokens;
  const isThere = isSame && usage.cachedTokens >= WARM_SHARE * hourTokens;
  const isReturn = isSame && isUpgraded && atMs - usedMs > ttlMs;
  return {
    clock: {
      ...clock,
      requestedAtMs: atMs,
      usedMs: atMs,
      heldTokens: usage.promptTokens,
      answerTokens: usage.outputTokens,
      hourTokens: isThere ? hourTokens : 0,
      keepAliveRequests: 0,
      isUpgraded: false,
      credited: clock.credited + credit,
      baseline: clock.baseline + costUnits + credit,
    },
    retainedTokens,
    credit,
    ...(isReturn && { upgrade: { of: "return", isGood: isThere } }),
  };
}

interface AfterKeepAlive {
  readonly clock: ClockState;
  readonly isWarm: boolean;
  readonly upgrade?: UpgradeOutcome;
}

/** Records a keep-alive request. One that failed at no cost must not be recorded. */
export function afterKeepAlive(
  clock: ClockState,
  { type, atMs, usage, costUnits }: SentKeepAlive & { readonly costUnits: number },
): AfterKeepAlive {
  const { promptTokens, cachedTokens, hourWriteTokens = 0 } = usage;
  const isWarm = cachedTokens >= WARM_SHARE * clock.heldTokens;
  const dueTokens = promptTokens - cachedTokens;
  const isForAnHour = hourWriteTokens > 0 &&
    Math.abs(hourWriteTokens - dueTokens) <= Math.max(BILL_TOKENS, dueTokens / 2);
  return {
    clock: {
      ...clock,
      usedMs: atMs,
      hourTokens: isForAnHour ? cachedTokens + hourWriteTokens : isWarm ? clock.hourTokens : 0,
      keepAliveRequests: clock.keepAliveRequests + 1,
      isUpgraded: isForAnHour,
      lost: isWarm ? 0 : clock.lost + 1,
      spent: clock.spent + costUnits,
    },
    isWarm,
    ...(type === "upgrade" && isWarm && { upgrade: { of: "bill", isGood: isForAnHour } }),
  };
}
