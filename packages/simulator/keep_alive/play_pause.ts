import type { KeepAliveRequest, Profile } from "@tare/planner";
import { promptCost, type PromptUnit } from "@tare/planner/internal/parts";
import type { HourCache } from "./hour_cache.ts";
import type { Warmer } from "./warmer.ts";
import type { Awaited } from "./timed_session.ts";

export interface PausedCall extends Awaited {
  readonly atMs: number;
  readonly units: readonly PromptUnit[];
  readonly promptTokens: number;
  readonly answer: PromptUnit;
  readonly isFirst: boolean;
  /** Time of the next request; infinite at the end of the session. */
  readonly nextMs: number;
  /** Tokens of the prefix shared with the next request. Default: all. */
  readonly nextSharedTokens?: number;
}

export interface Pinged {
  readonly keepAliveRequests: number;
  readonly cost: number;
}

/** Longest simulated pause after the end of a session. */
const LONGEST_PAUSE_MS = 7 * 24 * 3_600_000;

/** Runs keep-alive requests until the next request. */
export function playPause(
  warmer: Pick<Warmer, "next" | "recordKeepAlive">,
  call: PausedCall,
  { cache, profile, reportsEnd }: {
    readonly cache: HourCache;
    readonly profile: Profile;
    readonly reportsEnd: boolean;
  },
): Pinged {
  const { atMs: requestedAtMs, promptTokens, hasCommitted, isFirst, nextMs } = call;
  const { nextSharedTokens = promptTokens } = call;
  if (nextMs === Infinity && reportsEnd) return { keepAliveRequests: 0, cost: 0 };
  const endMs = Math.min(nextMs, requestedAtMs + LONGEST_PAUSE_MS);
  let [nowMs, usedMs, keepAliveRequests, cost] = [requestedAtMs, requestedAtMs, 0, 0];
  for (;;) {
    const pending = call.pending.findLast(({ fromMs }) => fromMs <= nowMs)?.pending ?? "user";
    const ping = warmer.next({
      ...{ nowMs, pending, hasCommitted, reportsEnd },
      ...{ requestedAtMs, usedMs, promptTokens, isFirst, nextMs, nextSharedTokens, keepAliveRequests },
    });
    const atMs = Math.min(ping?.atMs ?? Infinity, endMs);
    // The session may start waiting for something else meanwhile.
    const turn = call.pending.find(({ fromMs }) => nowMs < fromMs && fromMs <= atMs && fromMs < endMs);
    if (turn) {
      nowMs = turn.fromMs;
      continue;
    }
    if (!ping || atMs >= endMs) return { keepAliveRequests, cost };
    nowMs = usedMs = atMs;
    const usage = { ...serveKeepAlive(cache, call, { type: ping.type, atMs }), outputTokens: 0 };
    const costUnits = promptCost(profile, usage);
    keepAliveRequests++;
    cost += costUnits;
    warmer.recordKeepAlive?.({ type: ping.type, atMs, usage, costUnits });
  }
}

const DOT: PromptUnit = { hash: "a user's dot", tokens: 5 };

function serveKeepAlive(
  cache: HourCache,
  { units, answer }: PausedCall,
  { type, atMs }: Pick<KeepAliveRequest, "type" | "atMs">,
) {
  if (type === "exact") return cache.serve(units, atMs);
  const marked = units.length + 1;
  return cache.serve([...units, answer, DOT], atMs, { hourUnits: marked, markedUnits: marked });
}
