import type { Rewrite } from "@tare/messages";
import { addSums, type CallReport, type LedgerEntry, NO_SUMS, reportCall, type Sums } from "@tare/planner";
import type { SessionEvent } from "./event_log.ts";

/** The events that say what was called. */
export const CALL_EVENTS: readonly SessionEvent["type"][] = ["turn_start", "context_rewritten", "step_end"];

/** The model calls of a session, the oldest first, by its events. What was rewritten for a call that failed stands at the next. */
export function callsOf(events: Iterable<SessionEvent>): CallReport[] {
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
    const number = calls.length + 1;
    const ledger = ledgerOf(event);
    calls.push(reportCall(event.usage, { number, at: null, turn, purpose: "turn", ledger, rewrites }));
    rewrites = [];
  }
  return calls;
}

/** What these events came to. */
export function sumsOf(events: readonly SessionEvent[]): Sums {
  let sums = NO_SUMS;
  for (const event of events) {
    if (event.type === "step_end") {
      const ledger = ledgerOf(event);
      sums = addSums(sums, { ...tokensOf(event.usage), calls: 1 });
      if (ledger?.summary) sums = addSums(sums, tokensOf(ledger.summary));
      if (ledger) sums = addSums(sums, { tokenUnits: ledger.cost, resendTokenUnits: ledger.resendCost });
    }
    if (event.type === "turn_end") {
      const savedTokens = Object.values(event.ledger.saved).reduce((sum, tokens) => sum + tokens, 0);
      sums = addSums(sums, { savedTokens });
    }
  }
  return sums;
}

function tokensOf(
  { promptTokens, cachedTokens, outputTokens }: Pick<Sums, "promptTokens" | "cachedTokens" | "outputTokens">,
) {
  return { promptTokens, cachedTokens, outputTokens };
}

/** The ledger that a prompt session keeps of a call. */
function ledgerOf({ ledger }: Extract<SessionEvent, { type: "step_end" }>): LedgerEntry | undefined {
  return ledger as LedgerEntry | undefined;
}
