import type { Ping, Profile } from "@tare/planner";
import { promptCost, type PromptUnit } from "@tare/planner/internal/parts";
import type { HourCache } from "./hour_cache.ts";
import type { Warmer } from "./warmer.ts";
import type { Awaited } from "./timed_session.ts";

/** A request and what came behind it. */
export interface PausedCall extends Awaited {
  /** When it was made. */
  readonly atMs: number;
  readonly units: readonly PromptUnit[];
  readonly promptTokens: number;
  /** Its reply as the next prompt holds it. */
  readonly answer: PromptUnit;
  readonly isFirst: boolean;
  /** When the next request was made; infinite: the session was over. */
  readonly nextMs: number;
  /** Tokens with which that begins like this one. Default: all. */
  readonly nextSharedTokens?: number;
}

/** What pings came to. */
export interface Pinged {
  readonly pings: number;
  readonly cost: number;
}

/** Behind the end nobody waits any longer. */
const LONGEST_PAUSE_MS = 7 * 24 * 3_600_000;

/** Keeps a session warm, as its warmer says, until the next request. */
export function playPause(
  warmer: Pick<Warmer, "next" | "pinged">,
  call: PausedCall,
  { cache, profile, tellsEnd }: {
    readonly cache: HourCache;
    readonly profile: Profile;
    /** Whether whoever keeps it warm is told that it is over. */
    readonly tellsEnd: boolean;
  },
): Pinged {
  const { atMs: askedMs, promptTokens, hasCommitted, isFirst, nextMs } = call;
  const { nextSharedTokens = promptTokens } = call;
  if (nextMs === Infinity && tellsEnd) return { pings: 0, cost: 0 };
  const endMs = Math.min(nextMs, askedMs + LONGEST_PAUSE_MS);
  let [nowMs, usedMs, pings, cost] = [askedMs, askedMs, 0, 0];
  for (;;) {
    const pending = call.pending.findLast(({ fromMs }) => fromMs <= nowMs)?.pending ?? "person";
    const ping = warmer.next({
      ...{ nowMs, pending, hasCommitted, tellsEnd },
      ...{ askedMs, usedMs, promptTokens, isFirst, nextMs, nextSharedTokens, pings },
    });
    const atMs = Math.min(ping?.atMs ?? Infinity, endMs);
    // Somebody else may be waited for meanwhile.
    const turn = call.pending.find(({ fromMs }) => nowMs < fromMs && fromMs <= atMs && fromMs < endMs);
    if (turn) {
      nowMs = turn.fromMs;
      continue;
    }
    if (!ping || atMs >= endMs) return { pings, cost };
    nowMs = usedMs = atMs;
    const usage = { ...servePing(cache, call, { type: ping.type, atMs }), outputTokens: 0 };
    const tokenUnits = promptCost(profile, usage);
    pings++;
    cost += tokenUnits;
    warmer.pinged?.({ type: ping.type, atMs, usage, tokenUnits });
  }
}

/** What stands behind an upgrade's mark. */
const DOT: PromptUnit = { hash: "a user's dot", tokens: 5 };

function servePing(
  cache: HourCache,
  { units, answer }: PausedCall,
  { type, atMs }: Pick<Ping, "type" | "atMs">,
) {
  if (type === "exact") return cache.serve(units, atMs);
  const marked = units.length + 1;
  return cache.serve([...units, answer, DOT], atMs, { hourUnits: marked, markedUnits: marked });
}
