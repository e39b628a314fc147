import type { MissesReport, SpendReport } from "@tare/conversation/report";
import { agentClient } from "../agent_client.ts";
import { inDigitsOf } from "../in_digits.ts";
import type { UsedServer } from "./own_server.ts";

/** What a server's ledger says at some moment. */
export interface LedgerState {
  readonly all: Pick<
    SpendReport["all"],
    "calls" | "usd" | "withoutUsd" | "tokenUnits" | "withoutTokenUnits" | "unpricedCalls"
  >;
  readonly misses: MissesReport["misses"];
}

/** Reads it. */
export async function readLedger({ url, token }: UsedServer): Promise<LedgerState> {
  const client = agentClient(url, token);
  const [{ all }, { misses }] = await Promise.all([client.spend({ by: "agent" }), client.misses({})]);
  return { all, misses };
}

/** In two lines: what came between two moments cost and saved, and what would mend the rest. */
export function runReport(before: LedgerState, after: LedgerState): readonly string[] {
  const less = (name: keyof LedgerState["all"]) => after.all[name] - before.all[name];
  const calls = less("calls");
  if (calls === 0) return [];
  // What nobody knows the price of is told in token units.
  const isPriced = less("unpricedCalls") < calls;
  const [paid, without] = isPriced
    ? [less("usd"), less("withoutUsd")]
    : [less("tokenUnits"), less("withoutTokenUnits")];
  const amount = (value: number) => isPriced ? dollars(value) : inDigitsOf(value, "token unit");
  const saved = without - paid;
  const share = without > 0 ? ` (${(100 * Math.abs(saved) / without).toFixed(0)} %)` : "";
  const outcome = Math.abs(saved) < 0.005 * without
    ? "as much as without Tare, so far"
    : saved > 0
    ? `${amount(saved)}${share} less than without Tare`
    : `${amount(-saved)}${share} more than without Tare, which a longer session makes good`;
  return [
    `Tare: ${inDigitsOf(calls, "call")} cost ${amount(paid)}, ${outcome}.`,
    remedy(before, after, amount, isPriced ? "usd" : "tokenUnits"),
  ];
}

/** The dearest part of what need not have been paid. */
function remedy(
  before: LedgerState,
  after: LedgerState,
  amount: (value: number) => string,
  unit: "usd" | "tokenUnits",
): string {
  const [dearest] = after.misses.filter(({ avoidable }) => avoidable)
    .map((miss) => ({
      ...miss,
      paid: miss[unit] - (before.misses.find(({ cause }) => cause === miss.cause)?.[unit] ?? 0),
    }))
    .filter(({ paid }) => paid > 0)
    .sort((one, other) => other.paid - one.paid);
  return dearest
    ? `Of the rest ${amount(dearest.paid)} need not have been: ${dearest.name}. ${dearest.remedy}`
    : "Of the rest nothing could be mended: what wasn't in the cache had to be sent.";
}

function dollars(usd: number): string {
  return `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}`;
}
