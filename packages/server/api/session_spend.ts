import {
  byCostDescending,
  type CallReport,
  type PromptSnapshot,
  reportPrompt,
  type UsageTotals,
  usageTotals,
} from "@tare/session/internal/report";
import { type Static, Type } from "typebox";
import type { Reads } from "../http/route.ts";
import { closed, COUNT, orNull } from "../http/schema.ts";
import { BLOCK_STATE, MAY_PIN, numbers, PIN_REPORT, TOTAL_FIELDS } from "./report_schemas.ts";

const CARRIED = { ...numbers(["costUnits", "usd"]), unpricedCalls: COUNT };
const RESULTS_SPEND = Type.Array(
  closed({ key: Type.String(), results: COUNT, tokens: COUNT, ...CARRIED }, "ResultsSpend"),
);

const RESULT_SPENDS = Type.Array(closed({
  id: Type.String(),
  place: COUNT,
  tool: orNull(Type.String()),
  subject: orNull(Type.String()),
  tokens: COUNT,
  originalTokens: COUNT,
  state: BLOCK_STATE,
  pin: orNull(PIN_REPORT),
  mayPin: MAY_PIN,
  calls: COUNT,
  ...CARRIED,
}, "ResultSpend"));

export const SESSION_SPEND = closed({
  all: closed(TOTAL_FIELDS, "UsageTotals"),
  turns: Type.Array(
    closed(
      { turn: orNull(COUNT), at: orNull(Type.String({ format: "date-time" })), ...TOTAL_FIELDS },
      "TurnSpend",
    ),
  ),
  tools: RESULTS_SPEND,
  subjects: RESULTS_SPEND,
  results: RESULT_SPENDS,
  carried: RESULT_SPENDS,
  programs: Type.Optional(closed({
    programs: COUNT,
    calls: COUNT,
    failed: COUNT,
    omittedTokens: Type.Number({
      minimum: 0,
      description:
        "Tokens of their calls' results beyond their output: no prompt contained them. Not a saving.",
    }),
  }, "ProgramsSpend")),
}, "SessionSpend");

export type SessionSpend = Reads<Static<typeof SESSION_SPEND>>;

type ResultSpend = SessionSpend["results"][number];

const MOST = { rows: 100, results: 10 };

/**
 * Returns a session's cost. The cost of a result is estimated: its tokens, at the token price of each call that
 * contained them. The first time it is the uncached price; later the cache price, by the cached share of the earlier
 * prompt. The tokens are counted as the model receives them now. An evicted result counts until the first later
 * rewrite, which may be too long. Results that the client has dropped from its history are omitted.
 */
export function reportSessionSpend(
  seen: PromptSnapshot,
  { calls, isAnswered, totals = usageTotals.nothing }: {
    readonly calls: readonly CallReport[];
    /** Whether the history contains the answer to the newest call. */
    readonly isAnswered: boolean;
    /** Totals of the session's programs. Default: none. */
    readonly totals?: Pick<
      UsageTotals,
      "programs" | "programCalls" | "failedProgramCalls" | "programOmittedTokens"
    >;
  },
): SessionSpend {
  const programs = programsIn(totals);
  const turns = Array.from(Map.groupBy(calls, ({ turn }) => turn), ([turn, its]) => ({
    ...usageTotals.all(its.map(usageTotals.call)),
    ...{ turn, at: its[0]!.at },
  }));
  const turnCalls = calls.filter(({ purpose }) => purpose === "turn");
  const results = spendOfResults(seen, turnCalls, isAnswered).sort(byCostDescending);
  const by = (keyOf: (result: ResultSpend) => string | null) => {
    const totals = new Map<string, SessionSpend["tools"][number]>();
    for (const result of results) {
      const key = keyOf(result) ?? "";
      const { results = 0, tokens = 0, costUnits = 0, usd = 0, unpricedCalls = 0 } = totals.get(key) ?? {};
      totals.set(key, {
        key,
        results: results + 1,
        tokens: tokens + result.originalTokens,
        costUnits: costUnits + result.costUnits,
        usd: usd + result.usd,
        unpricedCalls: unpricedCalls + result.unpricedCalls,
      });
    }
    return [...totals.values()].sort(byCostDescending).slice(0, MOST.rows);
  };
  return {
    all: usageTotals.all(calls.map(usageTotals.call)),
    turns: turns.sort(byCostDescending).slice(0, MOST.rows),
    tools: by(({ tool }) => tool),
    subjects: by(({ subject }) => subject),
    results: results.slice(0, MOST.results),
    carried: results.filter(isWhole).slice(0, MOST.results),
    ...(programs && { programs }),
  };
}

function programsIn(
  { programs, programCalls: calls, failedProgramCalls: failed, programOmittedTokens: omittedTokens }:
    NonNullable<
      Parameters<typeof reportSessionSpend>[1]["totals"]
    >,
): SessionSpend["programs"] {
  return programs === 0 ? undefined : { programs, calls, failed, omittedTokens };
}

function spendOfResults(
  seen: PromptSnapshot,
  calls: readonly CallReport[],
  isAnswered: boolean,
): ResultSpend[] {
  const carrying = carryingCosts(calls);
  const firstCalls = firstCallsOf(seen, isAnswered ? calls.length : calls.length - 1);
  return reportPrompt(seen).blocks.flatMap(
    ({ role, place, title: _, ...block }) => {
      if (role !== "tool" || place === null) return [];
      const from = Math.max(0, firstCalls[place] ?? 0);
      if (from >= calls.length) return [];
      const { id, tool, subject, tokens, originalTokens, state, pin, mayPin } = block;
      const isThere = isWhole(block);
      const rewritten = isThere
        ? -1
        : calls.findIndex(({ rewrites }, at) => at > from && rewrites.length > 0);
      const left = rewritten < 0 ? calls.length : rewritten;
      const full = carrying(from, left, isThere ? tokens : originalTokens);
      const rest = carrying(left, calls.length, tokens, from);
      return [{
        ...{ id, tool, subject, tokens, originalTokens, state, pin, mayPin, place },
        calls: full.calls + (tokens > 0 ? rest.calls : 0),
        costUnits: full.costUnits + rest.costUnits,
        usd: full.usd + rest.usd,
        unpricedCalls: full.unpricedCalls + (tokens > 0 ? rest.unpricedCalls : 0),
      }];
    },
  );
}

function isWhole({ state }: Pick<ResultSpend, "state">): boolean {
  return state === "visible" || state === "deduplicated" || state === "truncated";
}

/**
 * Returns the first call, from 0, that contained each message, if the last answer belongs to the call before `end`.
 */
function firstCallsOf({ history: { messages } }: PromptSnapshot, end: number): readonly number[] {
  const answers = messages.map(({ role }, at) =>
    role === "assistant" && messages[at + 1]?.role !== "assistant" ? 1 : 0
  );
  let next = end - answers.reduce<number>((sum, one) => sum + one, 0);
  return answers.map((isAnswer) => {
    const first = next;
    next += isAnswer;
    return first;
  });
}

type Carrying = (
  from: number,
  to: number,
  tokens: number,
  /** Default: `from`. */
  first?: number,
) => Pick<ResultSpend, "calls" | "costUnits" | "usd" | "unpricedCalls">;

/** Returns each call's cost of a new token, and the running total of an older one. */
function carryingCosts(calls: readonly CallReport[]): Carrying {
  const fresh: { readonly costUnits: number; readonly usd: number }[] = [];
  const totals = [{ costUnits: 0, usd: 0, unpricedCalls: 0 }];
  let prices = { read: { costUnits: 0, usd: 0 }, fresh: { costUnits: 1, usd: 0 } };
  for (const [at, call] of calls.entries()) {
    prices = { read: pricesOf(call, "read") ?? prices.read, fresh: pricesOf(call, "fresh") ?? prices.fresh };
    const held = Math.min(call.promptTokens, calls[at - 1]?.promptTokens ?? 0);
    const served = held > 0 ? Math.min(1, call.cachedTokens / held) : 0;
    const mean = (unit: "costUnits" | "usd") =>
      served * prices.read[unit] + (1 - served) * prices.fresh[unit];
    const isUnpriced = call.usd === null;
    const before = totals[at]!;
    fresh.push({ ...prices.fresh, ...(isUnpriced && { usd: 0 }) });
    totals.push({
      costUnits: before.costUnits + mean("costUnits"),
      usd: before.usd + (isUnpriced ? 0 : mean("usd")),
      unpricedCalls: before.unpricedCalls + (isUnpriced ? 1 : 0),
    });
  }
  return (from, to, tokens, first = from) => {
    const isFirst = first === from && from < to;
    const [begin, end, own] = [
      totals[isFirst ? from + 1 : from]!,
      totals[to]!,
      isFirst ? fresh[from]! : undefined,
    ];
    return {
      calls: to - from,
      costUnits: tokens * (end.costUnits - begin.costUnits + (own?.costUnits ?? 0)),
      usd: tokens * (end.usd - begin.usd + (own?.usd ?? 0)),
      unpricedCalls: end.unpricedCalls - totals[from]!.unpricedCalls,
    };
  };
}

/** Returns the price of a cached or an uncached token in a call; `undefined` if there was none. */
export function pricesOf(
  { promptTokens, cachedTokens, spent, summary }: CallReport,
  which: "read" | "fresh",
): { readonly costUnits: number; readonly usd: number } | undefined {
  const tokens = which === "read" ? cachedTokens : promptTokens - cachedTokens;
  // A summary's price is part of the call's.
  if (tokens <= 0 || which === "fresh" && summary) return undefined;
  const of = (costs: CallReport["spent"]["usd"]) => {
    if (!costs) return 0;
    const { cacheRead, output: _, ...missed } = costs;
    return (which === "read" ? cacheRead : Object.values(missed).reduce((sum, cost) => sum + cost, 0)) /
      tokens;
  };
  return { costUnits: of(spent.costUnits), usd: of(spent.usd) };
}
