import type { Cost, Rewrite, Usage } from "@tare/messages";
import type { LedgerEntry } from "@tare/planner";
import { callCost, type Rates } from "@tare/planner";
import { addSums, NO_SUMS, type Sums } from "./overview.ts";

/** One model call of a session: what it took, what resending everything would have taken, what was rewritten for it. */
export interface CallReport {
  /** Number of the call in its session, from 1. */
  readonly number: number;
  /** When it was answered; null where that isn't known. */
  readonly at: string | null;
  /** Number of the turn that it belongs to, from 1; null where turns aren't counted. */
  readonly turn: number | null;
  /** `turn`, or what it was made for that is no turn: `compaction`, `title`, `other`. */
  readonly purpose: string;
  /** Tokens of the prompt: those read from the cache, written to it, and neither. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Tokens that the provider says it wrote to its cache; zero where it says nothing. */
  readonly writtenTokens: number;
  readonly newTokens: number;
  readonly outputTokens: number;
  /** Whether the provider reported nothing and this was counted here. */
  readonly estimated: boolean;
  /** What the prompt cost in token units, a summary made for it included. */
  readonly tokenUnits: number;
  /** What call and summary cost in US dollars; null where the model's price isn't known. */
  readonly usd: number | null;
  /** What resending everything would have taken; null where no ledger is kept. */
  readonly resend:
    | Pick<Usage, "promptTokens" | "cachedTokens"> & Pick<CallReport, "tokenUnits" | "usd">
    | null;
  /** What a model took that was asked for a summary before this call. */
  readonly summary: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens"> | null;
  /** Why tokens were not read from the cache. */
  readonly uncached: LedgerEntry["uncached"];
  /** What was rewritten before it, and why, in words. */
  readonly rewrites: readonly Rewrite[];
}

/** Calls of a list that asks for no number of them, and most in any. */
export const CALLS_PAGE: { readonly usual: number; readonly most: number } = { usual: 1_000, most: 10_000 };

/** A stretch of calls, the oldest first: at most `limit` behind the one with the number `after`. */
export function pageOfCalls(
  calls: readonly CallReport[],
  { after = 0, limit = CALLS_PAGE.usual }: { readonly after?: number; readonly limit?: number } = {},
): { readonly calls: readonly CallReport[]; readonly hasMore: boolean } {
  const behind = calls.filter(({ number }) => number > after);
  return { calls: behind.slice(0, limit), hasMore: behind.length > limit };
}

/** What a call took, by what the provider reported and what the ledger says of it. */
export function reportCall(
  usage: Usage,
  { ledger, rates, cost: its = callCost(usage, rates), rewrites = [], ...told }:
    & Pick<CallReport, "number" | "at" | "turn" | "purpose">
    & {
      readonly ledger?: LedgerEntry | undefined;
      readonly rates: Rates;
      /** What the call cost when it was made. Default: what it costs by these rates. */
      readonly cost?: Cost | undefined;
      readonly rewrites?: readonly Rewrite[];
    },
): CallReport {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, estimated = false } = usage;
  const { summary, resend } = ledger ?? {};
  const paid = summary && callCost(summary, rates);
  const resent = resend && callCost({ ...resend, outputTokens }, rates);
  return {
    ...told,
    promptTokens,
    cachedTokens,
    writtenTokens: cacheWriteTokens,
    newTokens: promptTokens - cachedTokens - cacheWriteTokens,
    outputTokens,
    estimated,
    tokenUnits: its.tokenUnits + (paid?.tokenUnits ?? 0),
    usd: its.usd === undefined ? null : its.usd + (paid?.usd ?? 0),
    resend: resend && resent && ledger
      ? { ...resend, tokenUnits: ledger.resendTokenUnits, usd: resent.usd ?? null }
      : null,
    summary: summary ? tokensOf(summary) : null,
    uncached: ledger?.uncached ?? [],
    rewrites,
  };
}

/** What a call came to, its summary included, but for tokens that were kept out. */
export function sumsOfCall(call: CallReport): Sums {
  const { tokenUnits, usd, resend, summary } = call;
  const sums = addSums({ ...NO_SUMS, calls: 1, ...tokensOf(call) }, summary ? tokensOf(summary) : {});
  return {
    ...sums,
    tokenUnits,
    resendTokenUnits: resend?.tokenUnits ?? tokenUnits,
    usd: usd ?? 0,
    resendUsd: (resend ? resend.usd : usd) ?? 0,
    unpricedCalls: usd === null ? 1 : 0,
  };
}

function tokensOf({ promptTokens, cachedTokens, outputTokens }: NonNullable<CallReport["summary"]>) {
  return { promptTokens, cachedTokens, outputTokens };
}
