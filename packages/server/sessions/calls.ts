import type { Rewrite } from "@tare/messages";
import type { LedgerEntry, Rates } from "@tare/planner";
import type { Conversation } from "@tare/conversation";
import { type CallReport, reportCall, sumsOfCall } from "@tare/conversation/report";
import type { SessionEvent } from "./session_types.ts";

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
    // Events of older versions don't tell.
    const at = atMs === undefined ? null : new Date(atMs).toISOString();
    const number = calls.length + 1;
    // What the context hook says of a call is what its prompt session keeps.
    const ledger = event.ledger as LedgerEntry | undefined;
    calls.push(reportCall(usage, { number, at, turn, purpose: "turn", ledger, rates, cost, rewrites }));
    rewrites = [];
  }
  return calls;
}

/** Takes note of what calls came to by these events, the last of which happens now. */
export function bookCalls(
  conversation: Pick<Conversation, "book">,
  events: readonly SessionEvent[],
  { rates, nowMs }: { readonly rates: Rates; readonly nowMs: number },
): void {
  for (const call of callsOf(events, rates)) {
    conversation.book(sumsOfCall(call), call.at === null ? nowMs : Date.parse(call.at));
  }
  for (const event of events) {
    if (event.type !== "turn_end") continue;
    const savedTokens = Object.values(event.ledger.saved).reduce((sum, tokens) => sum + tokens, 0);
    conversation.book({ savedTokens }, nowMs);
  }
}
