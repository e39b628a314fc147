import {
  type CallReport,
  dearest,
  reportPrompt,
  type SeenSession,
  type Sums,
  sumsOf,
} from "@tare/session/internal/report";
import { type Static, Type } from "typebox";
import type { Reads } from "../http/route.ts";
import { closed, COUNT, orNull } from "../http/schema.ts";
import { BLOCK_STATE, numbers, PIN_REPORT, SUMS } from "./report_schemas.ts";

const CARRIED = { ...numbers(["tokenUnits", "usd"]), unpricedCalls: COUNT };
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
  calls: COUNT,
  ...CARRIED,
}, "ResultSpend"));

/** What money went for in a session. */
export const SESSION_SPEND = closed({
  all: closed(SUMS, "Sums"),
  turns: Type.Array(
    closed({ turn: orNull(COUNT), at: orNull(Type.String({ format: "date-time" })), ...SUMS }, "TurnSpend"),
  ),
  tools: RESULTS_SPEND,
  subjects: RESULTS_SPEND,
  results: RESULT_SPENDS,
  carried: RESULT_SPENDS,
  programs: Type.Optional(closed({
    programs: COUNT,
    calls: COUNT,
    failed: COUNT,
    keptTokens: Type.Number({
      minimum: 0,
      description:
        "Tokens of what they called beyond what they printed: no prompt ever held them. No saving.",
    }),
  }, "ProgramsSpend")),
}, "SessionSpend");

/** Where a session's money went. */
export type SessionSpend = Reads<Static<typeof SESSION_SPEND>>;

type ResultSpend = SessionSpend["results"][number];

/** So many turns, tools and subjects are told at most, and so many results. */
const MOST = { rows: 100, results: 10 };

/**
 * Where a session's money went. What a result cost is reckoned of what is there: its tokens, for each call that held it at
 * the price that this call paid for a token. When it was first sent that is the price of what isn't cached; later that of
 * the cache for the share of the prompt before that was served. The tokens are counted here, as the model is shown it now;
 * one that has left is taken to have been there until the first rewrite behind its coming, so that it may have cost more
 * than is said. Results that their client has dropped from its history are in no table.
 */
export function reportSessionSpend(
  seen: SeenSession,
  { calls, isAnswered, sums = sumsOf.nothing }: {
    /** The session's calls, the oldest first. */
    readonly calls: readonly CallReport[];
    /** Whether the history holds the answer to the newest of them. */
    readonly isAnswered: boolean;
    /** What the session has come to: what its programs called. Default: there were none. */
    readonly sums?: Pick<
      Sums,
      "programs" | "programCalls" | "failedProgramCalls" | "programKeptTokens"
    >;
  },
): SessionSpend {
  const programs = programsIn(sums);
  const turns = Array.from(Map.groupBy(calls, ({ turn }) => turn), ([turn, its]) => ({
    ...sumsOf.all(its.map(sumsOf.call)),
    ...{ turn, at: its[0]!.at },
  }));
  const turnCalls = calls.filter(({ purpose }) => purpose === "turn");
  const results = spendOfResults(seen, turnCalls, isAnswered).sort(dearest);
  const by = (keyOf: (result: ResultSpend) => string | null) => {
    const sums = new Map<string, SessionSpend["tools"][number]>();
    for (const result of results) {
      const key = keyOf(result) ?? "";
      const { results = 0, tokens = 0, tokenUnits = 0, usd = 0, unpricedCalls = 0 } = sums.get(key) ?? {};
      sums.set(key, {
        key,
        results: results + 1,
        tokens: tokens + result.originalTokens,
        tokenUnits: tokenUnits + result.tokenUnits,
        usd: usd + result.usd,
        unpricedCalls: unpricedCalls + result.unpricedCalls,
      });
    }
    return [...sums.values()].sort(dearest).slice(0, MOST.rows);
  };
  return {
    all: sumsOf.all(calls.map(sumsOf.call)),
    turns: turns.sort(dearest).slice(0, MOST.rows),
    tools: by(({ tool }) => tool),
    subjects: by(({ subject }) => subject),
    results: results.slice(0, MOST.results),
    carried: results.filter(isWhole).slice(0, MOST.results),
    ...(programs && { programs }),
  };
}

/** What programs have called, of what all came to; nothing if there were none. */
function programsIn(
  { programs, programCalls: calls, failedProgramCalls: failed, programKeptTokens: keptTokens }: NonNullable<
    Parameters<typeof reportSessionSpend>[1]["sums"]
  >,
): SessionSpend["programs"] {
  return programs === 0 ? undefined : { programs, calls, failed, keptTokens };
}

/** What each result has cost that was said in a session; nothing of those that no call has held yet. */
function spendOfResults(
  seen: SeenSession,
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
      const { id, tool, subject, tokens, originalTokens, state, pin } = block;
      const isThere = isWhole(block);
      const rewritten = isThere
        ? -1
        : calls.findIndex(({ rewrites }, at) => at > from && rewrites.length > 0);
      const left = rewritten < 0 ? calls.length : rewritten;
      const full = carrying(from, left, isThere ? tokens : originalTokens);
      const rest = carrying(left, calls.length, tokens, from);
      return [{
        ...{ id, tool, subject, tokens, originalTokens, state, pin, place },
        calls: full.calls + (tokens > 0 ? rest.calls : 0),
        tokenUnits: full.tokenUnits + rest.tokenUnits,
        usd: full.usd + rest.usd,
        unpricedCalls: full.unpricedCalls + (tokens > 0 ? rest.unpricedCalls : 0),
      }];
    },
  );
}

/** Whether the model sees of it what it saw when it came. */
function isWhole({ state }: Pick<ResultSpend, "state">): boolean {
  return state === "alive" || state === "said_once" || state === "truncated";
}

/** The call, from 0, that was first to hold each message, if the last word of a model is the answer to the call before `end`. */
function firstCallsOf({ history: { messages } }: SeenSession, end: number): readonly number[] {
  // What a model says in one go may be several messages.
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

/** What it costs that calls hold so many tokens of a result. */
type Carrying = (
  from: number,
  to: number,
  tokens: number,
  /** The call that was the first to hold it. Default: `from`. */
  first?: number,
) => Pick<ResultSpend, "calls" | "tokenUnits" | "usd" | "unpricedCalls">;

/** What a token has cost in each call: as one that is new, and added up over the calls as one that was there before. */
function carryingCosts(calls: readonly CallReport[]): Carrying {
  const fresh: { readonly tokenUnits: number; readonly usd: number }[] = [];
  const sums = [{ tokenUnits: 0, usd: 0, unpricedCalls: 0 }];
  let prices = { read: { tokenUnits: 0, usd: 0 }, fresh: { tokenUnits: 1, usd: 0 } };
  for (const [at, call] of calls.entries()) {
    prices = { read: pricesOf(call, "read") ?? prices.read, fresh: pricesOf(call, "fresh") ?? prices.fresh };
    const held = Math.min(call.promptTokens, calls[at - 1]?.promptTokens ?? 0);
    const served = held > 0 ? Math.min(1, call.cachedTokens / held) : 0;
    const mean = (unit: "tokenUnits" | "usd") =>
      served * prices.read[unit] + (1 - served) * prices.fresh[unit];
    const isUnpriced = call.usd === null;
    const before = sums[at]!;
    fresh.push({ ...prices.fresh, ...(isUnpriced && { usd: 0 }) });
    sums.push({
      tokenUnits: before.tokenUnits + mean("tokenUnits"),
      usd: before.usd + (isUnpriced ? 0 : mean("usd")),
      unpricedCalls: before.unpricedCalls + (isUnpriced ? 1 : 0),
    });
  }
  return (from, to, tokens, first = from) => {
    const isFirst = first === from && from < to;
    // What is first sent was in nobody's cache.
    const [begin, end, own] = [
      sums[isFirst ? from + 1 : from]!,
      sums[to]!,
      isFirst ? fresh[from]! : undefined,
    ];
    return {
      calls: to - from,
      tokenUnits: tokens * (end.tokenUnits - begin.tokenUnits + (own?.tokenUnits ?? 0)),
      usd: tokens * (end.usd - begin.usd + (own?.usd ?? 0)),
      unpricedCalls: end.unpricedCalls - sums[from]!.unpricedCalls,
    };
  };
}

/** What a token cost that the cache served in a call, or one that it didn't; nothing where there was none. */
export function pricesOf(
  { promptTokens, cachedTokens, spent, summary }: CallReport,
  which: "read" | "fresh",
): { readonly tokenUnits: number; readonly usd: number } | undefined {
  const tokens = which === "read" ? cachedTokens : promptTokens - cachedTokens;
  // A summary's price is among the call's.
  if (tokens <= 0 || which === "fresh" && summary) return undefined;
  const of = (costs: CallReport["spent"]["usd"]) => {
    if (!costs) return 0;
    const { cacheRead, output: _, ...missed } = costs;
    return (which === "read" ? cacheRead : Object.values(missed).reduce((sum, cost) => sum + cost, 0)) /
      tokens;
  };
  return { tokenUnits: of(spent.tokenUnits), usd: of(spent.usd) };
}
