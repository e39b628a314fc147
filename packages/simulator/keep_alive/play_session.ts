import type { Profile } from "@tare/planner";
import { promptCost, type PromptUnit } from "@tare/planner/internal/parts";
import { HourCache } from "./hour_cache.ts";
import { playPause } from "./play_pause.ts";
import type { Warmer } from "./warmer.ts";
import type { TimedSession } from "./timed_session.ts";

/** Costs are in cost units. */
export interface PlayedSession {
  readonly cost: number;
  readonly keepAliveRequests: number;
}

export interface WarmOptions {
  readonly profile: Profile;
  /** Price of an output token, in cost units. */
  readonly outputPrice: number;
  /** Whether the provider extends a cached prefix to an hour. */
  readonly grants: boolean;
  readonly reportsEnd: boolean;
}

/** Replays the recorded requests of a session, with keep-alive requests between them. */
export function playSession({ calls }: TimedSession, warmer: Warmer, options: WarmOptions): PlayedSession {
  const { profile, outputPrice, grants } = options;
  const cache = new HourCache(profile, { grants });
  let [cost, keepAliveRequests] = [0, 0];
  for (const [at, call] of calls.entries()) {
    const { units, atMs, outputTokens, answer } = call;
    const hourUnits = warmer.hour === "all" ? units.length : warmer.hour === "head" ? 1 : 0;
    const usage = { ...cache.serve(units, atMs, { hourUnits }), outputTokens: answer.tokens };
    const costUnits = promptCost(profile, usage) + outputPrice * outputTokens;
    const before = calls[at - 1];
    const sharedTokens = before ? shared(units, [...before.units, before.answer]) : 0;
    warmer.requested?.({ atMs, usage, sharedTokens, costUnits });
    const next = calls[at + 1];
    const pinged = playPause(warmer, {
      ...call,
      isFirst: at === 0,
      nextMs: next?.atMs ?? Infinity,
      ...(next && { nextSharedTokens: shared(next.units, units) }),
    }, { ...options, cache });
    keepAliveRequests += pinged.keepAliveRequests;
    cost += costUnits + pinged.cost;
  }
  return { cost, keepAliveRequests };
}

function shared(units: readonly PromptUnit[], others: readonly PromptUnit[]): number {
  let tokens = 0;
  for (const [at, unit] of units.entries()) {
    if (unit.hash !== others[at]?.hash) break;
    tokens += unit.tokens;
  }
  return tokens;
}
