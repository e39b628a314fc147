import type { CountTokens } from "@tare/messages";
import type { HistorySession } from "./read_logs.ts";
import { readWhole } from "./read_logs.ts";
import { recordingLine, recordingOf } from "./recording_line.ts";
import { type AtKappa, type Replay, Replays } from "./replay.ts";

/** Dollars that a session would have saved: less than zero if it would have cost more. */
export interface Saved {
  /** By letting go of what isn't needed, from nothing forgotten being needed to each repair being paid three times. */
  readonly pruned: AtKappa;
  /** By pings, which lose nothing, where the provider makes a prefix last an hour. */
  readonly warm: number;
  /** The same where it refuses that. */
  readonly warmRefused: number;
  /** By both at once. */
  readonly both: AtKappa;
}

/** A session that was played again. */
export interface ReplayedSession {
  readonly session: HistorySession;
  readonly replay: Replay;
  /** Shares of what it cost. */
  readonly shares: Saved;
  /** The same in dollars; nothing of a session whose price nobody knows. */
  readonly saved: Saved | undefined;
}

/** What came of playing sessions again. */
export interface PlayedHistory {
  readonly played: readonly ReplayedSession[];
  /** Sessions in which nothing can be saved, or can't be played, by why. */
  readonly leftOut: ReadonlyMap<string, number>;
  /** Sessions for which there was no time. */
  readonly waiting: number;
}

/** How sessions are played again. */
export interface ReplayOptions {
  readonly countTokens: CountTokens;
  /** No session begins later than so many milliseconds after the first. */
  readonly budgetMs: number;
  /** Called after each session, with the share of the time or of the sessions that is over. */
  readonly onSession?: (share: number) => void;
  /** Given each session as a line of a recording. */
  readonly record?: ((agent: string, line: string) => void) | undefined;
}

/** Plays sessions again, in their order, one in memory at a time. */
export async function replayHistory(
  sessions: readonly HistorySession[],
  { countTokens, budgetMs, onSession, record }: ReplayOptions,
): Promise<PlayedHistory> {
  const played: ReplayedSession[] = [];
  const leftOut = new Map<string, number>();
  const replays = new Map<string, Replays>();
  const startMs = performance.now();
  for (const [at, session] of sessions.entries()) {
    const passedMs = performance.now() - startMs;
    if (passedMs > budgetMs) return { played, leftOut, waiting: sessions.length - at };
    const its = replays.get(session.agent) ?? new Replays(countTokens);
    replays.set(session.agent, its);
    const outcome = await replay(session, { replays: its, countTokens, record });
    if (typeof outcome === "string") leftOut.set(outcome, (leftOut.get(outcome) ?? 0) + 1);
    else played.push(outcome);
    onSession?.(Math.max((at + 1) / sessions.length, passedMs / budgetMs));
  }
  return { played, leftOut, waiting: 0 };
}

/** What came of a session, or why it isn't played. */
async function replay(
  session: HistorySession,
  { replays, countTokens, record }: Pick<ReplayOptions, "countTokens" | "record"> & {
    readonly replays: Replays;
  },
): Promise<ReplayedSession | string> {
  const whole = readWhole(session);
  if (!whole) return "the log isn't there any more";
  let recording;
  try {
    recording = recordingOf(session.agent, whole, countTokens);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  if (!recording) return "no tool was called";
  record?.(session.agent, recordingLine(session.agent, whole, countTokens));
  const played = await replays.play(recording, whole.calls);
  const shares = sharesOf(played);
  const { usd, unpricedCalls, calls } = session.sums;
  return {
    session,
    replay: played,
    shares,
    saved: unpricedCalls === calls ? undefined : eachOf(shares, (share) => share * usd),
  };
}

function sharesOf({ alone, planner, warmth }: Replay): Saved {
  const of = (costs: AtKappa): AtKappa => ({
    k0: 1 - costs.k0 / alone.k0,
    k1: 1 - costs.k1 / alone.k1,
    k3: 1 - costs.k3 / alone.k3,
  });
  const warm = (cost: number | undefined) => warmth && cost !== undefined ? 1 - cost / warmth.none : 0;
  return {
    pruned: of(planner),
    warm: warm(warmth?.kept),
    warmRefused: warm(warmth?.refused),
    both: of(warmth?.planner ?? planner),
  };
}

function eachOf(
  { pruned, warm, warmRefused, both }: Saved,
  make: (value: number) => number,
): Saved {
  const at = ({ k0, k1, k3 }: AtKappa) => ({ k0: make(k0), k1: make(k1), k3: make(k3) });
  return { pruned: at(pruned), warm: make(warm), warmRefused: make(warmRefused), both: at(both) };
}

/** The sums of what sessions would have saved. */
export function sumSaved(played: readonly ReplayedSession[]): Saved {
  const sum = (of: (saved: Saved) => number) =>
    played.reduce((all, { saved }) => all + (saved ? of(saved) : 0), 0);
  const at = (of: (saved: Saved) => AtKappa) => ({
    k0: sum((saved) => of(saved).k0),
    k1: sum((saved) => of(saved).k1),
    k3: sum((saved) => of(saved).k3),
  });
  return {
    pruned: at(({ pruned }) => pruned),
    warm: sum(({ warm }) => warm),
    warmRefused: sum(({ warmRefused }) => warmRefused),
    both: at(({ both }) => both),
  };
}
