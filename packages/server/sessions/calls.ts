import type { Rewrite } from "@tare/messages";
import type { LedgerEntry, Rates } from "@tare/planner";
import {
  addSums,
  type CallReport,
  NO_SUMS,
  reportCall,
  type Sums,
  sumsOfCall,
} from "@tare/conversation/report";
import type { SessionEvent } from "./event_log.ts";
import type { SessionTotals } from "./session_options.ts";

/** The events that say what was called. */
export const CALL_EVENTS: readonly SessionEvent["type"][] = ["turn_start", "context_rewritten", "step_end"];

/** The model calls of a session, the oldest first, by its events. What was rewritten for a call that failed stands at the next. */
export function callsOf(events: Iterable<SessionEvent>, rates: Rates): CallReport[] {
  const calls: CallReport[] = [];
  let turn = 0;
  let rewrites: Rewrite[] = [];
  for (const event of events) {
    if (event.type === "turn_start") turn++;
    if (event.type === "context_rewritten") {
      const { type: _type, step: _step, ...rewrite } = event;
      rewrites.push(rewrite);
    }
    if (event.type !== "step_end") continue;
    const { usage, cost, atMs } = event;
    // The loop alone doesn't tell.
    const at = atMs === undefined ? null : new Date(atMs).toISOString();
    const number = calls.length + 1;
    // What the context hook says of a call is what its prompt session keeps.
    const ledger = event.ledger as LedgerEntry | undefined;
    calls.push(reportCall(usage, { number, at, turn, purpose: "turn", ledger, rates, cost, rewrites }));
    rewrites = [];
  }
  return calls;
}

/** What days came to after these events, the last of which happens now; the same if nothing was called. */
export function daysAfter(
  days: SessionTotals["days"],
  events: readonly SessionEvent[],
  { rates, nowMs }: { readonly rates: Rates; readonly nowMs: number },
): SessionTotals["days"] {
  const today = dayOf(nowMs);
  let after = days;
  const add = (day: string, sums: Partial<Sums>) =>
    after = { ...after, [day]: addSums(after[day] ?? NO_SUMS, sums) };
  for (const call of callsOf(events, rates)) add(call.at?.slice(0, today.length) ?? today, sumsOfCall(call));
  for (const event of events) {
    if (event.type !== "turn_end") continue;
    add(today, { savedTokens: Object.values(event.ledger.saved).reduce((sum, tokens) => sum + tokens, 0) });
  }
  return after;
}

/** The day of a moment, by UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
