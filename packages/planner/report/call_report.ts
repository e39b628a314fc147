import type { JsonSchema, Rewrite, Usage } from "@tare/messages";
import type { LedgerEntry, UncachedCause } from "../ledger/ledger.ts";
import { closedSchema, COUNT, FLAG, listOf, NUMBER, orNull, TEXT, TIME } from "./schemas.ts";

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
  /** What the prompt cost, in the price of one uncached input token; null where no ledger is kept. */
  readonly tokenUnits: number | null;
  /** What resending everything would have taken; null where no ledger is kept. */
  readonly resend: { readonly promptTokens: number; readonly tokenUnits: number } | null;
  /** What a model took that was asked for a summary before this call; its cost is in that of the call. */
  readonly summary: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens"> | null;
  /** Why tokens were not read from the cache. */
  readonly uncached: readonly { readonly cause: UncachedCause; readonly tokens: number }[];
  /** What was rewritten before it, and why, in words. */
  readonly rewrites: readonly Rewrite[];
}

/** JSON Schema of what was asked for and was done with a rewrite. */
export const ASKED: JsonSchema = listOf(
  closedSchema("Asked", { place: COUNT, wish: { enum: ["keep", "let_go"] }, by: TEXT }),
);

const REWRITE = {
  mechanism: TEXT,
  reason: TEXT,
  removed: TEXT,
  tokensBefore: NUMBER,
  tokensAfter: NUMBER,
};

/** JSON Schema of a rewrite. */
export const REWRITE_REPORT: JsonSchema = {
  ...closedSchema("Rewrite", REWRITE),
  properties: { ...REWRITE, asked: ASKED },
};

/** JSON Schema of a {@linkcode CallReport}. */
export const CALL_REPORT: JsonSchema = closedSchema("Call", {
  number: COUNT,
  at: orNull(TIME),
  turn: orNull(COUNT),
  purpose: TEXT,
  promptTokens: NUMBER,
  cachedTokens: NUMBER,
  writtenTokens: NUMBER,
  newTokens: NUMBER,
  outputTokens: NUMBER,
  estimated: FLAG,
  tokenUnits: orNull(NUMBER),
  resend: orNull(closedSchema("Resend", { promptTokens: NUMBER, tokenUnits: NUMBER })),
  summary: orNull(
    closedSchema("SummaryUsage", { promptTokens: NUMBER, cachedTokens: NUMBER, outputTokens: NUMBER }),
  ),
  uncached: listOf(closedSchema("UncachedTokens", { cause: TEXT, tokens: NUMBER })),
  rewrites: listOf(REWRITE_REPORT),
});

/** JSON Schema of a stretch of a session's calls. */
export const CALL_LIST: JsonSchema = closedSchema("CallList", { calls: listOf(CALL_REPORT), hasMore: FLAG });

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
  { ledger, rewrites = [], ...told }: Pick<CallReport, "number" | "at" | "turn" | "purpose"> & {
    readonly ledger?: LedgerEntry | undefined;
    readonly rewrites?: readonly Rewrite[];
  },
): CallReport {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, estimated = false } = usage;
  const summary = ledger?.summary;
  return {
    ...told,
    promptTokens,
    cachedTokens,
    writtenTokens: cacheWriteTokens,
    newTokens: promptTokens - cachedTokens - cacheWriteTokens,
    outputTokens,
    estimated,
    tokenUnits: ledger?.cost ?? null,
    resend: ledger ? { promptTokens: ledger.resendTokens, tokenUnits: ledger.resendCost } : null,
    summary: summary
      ? {
        promptTokens: summary.promptTokens,
        cachedTokens: summary.cachedTokens,
        outputTokens: summary.outputTokens,
      }
      : null,
    uncached: ledger?.uncached ?? [],
    rewrites,
  };
}
