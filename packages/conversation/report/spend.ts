import {
  aboutOf,
  addSums,
  type CallReport,
  dayAndModel,
  type Days,
  FIRST_DAY,
  LAST_DAY,
  type Sums,
  sumsOf,
} from "./calls.ts";
import type { Store, StoredSums } from "../store/port.ts";
import { type PromptReport, reportPrompt, type SeenConversation } from "./prompt_report.ts";

/** A session whose calls have cost something. */
export interface SpendingSession {
  readonly id: string;
  /** Whose loop leads it: ours, or that of somebody else, whose calls pass through. */
  readonly kind: "agent" | "gateway";
  /** What the user said first, in one line. */
  readonly title: string;
  /** The model that was asked last. */
  readonly model: string;
  /** Name of the program whose loop it is: `tare` of our own; null where it isn't known. */
  readonly agent: string | null;
  readonly days: Days;
}

/** What spending may be cut by. */
export const SPEND_BY = ["day", "model", "session", "agent"] as const;

/** What money went for. */
export interface SpendReport {
  /** What all came to, those included that have no row here. */
  readonly all: Sums;
  /** Days the newest first; others the dearest first, by dollars and then by token units. */
  readonly rows: readonly (Sums & {
    /** The day, the model, the agent's name or the session's id; empty where it isn't known. */
    readonly key: string;
    /** What is known of the session, of rows by session. */
    readonly session: Omit<SpendingSession, "days" | "id"> | null;
  })[];
  /** Whether there are more rows. */
  readonly hasMore: boolean;
}

/**
 * What sessions of a kind and key have come to that a store has kept, those that are gone too: by day, model and agent, as of
 * one session of each.
 *
 * @throws {StoreError}
 */
export async function keptSpending(
  store: Pick<Store, "readSums">,
  { from = FIRST_DAY, to = LAST_DAY, ...which }:
    & Pick<StoredSums, "kind" | "by">
    & { readonly from?: string | undefined; readonly to?: string | undefined },
): Promise<readonly SpendingSession[]> {
  const sums = await store.readSums({ ...which, from, to });
  return sums.map(({ kind, day, about, sums }) => {
    const { model = "", agent = null } = aboutOf({ about });
    return { id: "", title: "", kind, model, agent, days: { [`${day} ${model}`.trimEnd()]: sums } };
  });
}

/** What sessions have cost, by day, model, session or agent. */
export async function reportSpend(
  sessions: AsyncIterable<SpendingSession> | Iterable<SpendingSession>,
  { by, from = FIRST_DAY, to = LAST_DAY, limit = 100 }: {
    readonly by: typeof SPEND_BY[number];
    /** First and last day, by UTC, such as `2026-01-31`. Default: any. */
    readonly from?: string | undefined;
    readonly to?: string | undefined;
    /** Most rows. Default: 100. */
    readonly limit?: number | undefined;
  },
): Promise<SpendReport> {
  type Found = Pick<SpendReport["rows"][number], "session"> & { readonly days: Partial<Sums>[] };
  const found = new Map<string, Found>();
  for await (const { days, id, ...session } of sessions) {
    for (const [name, sums] of Object.entries(days)) {
      const { day, model } = dayAndModel(name);
      if (day < from || day > to) continue;
      const key = { day, model, session: id, agent: session.agent ?? "" }[by];
      const row = found.get(key) ?? { session: by === "session" ? session : null, days: [] };
      row.days.push(sums);
      found.set(key, row);
    }
  }
  const rows = Array.from(found, ([key, { session, days }]) => ({
    ...{ key, session, days },
    usd: sumOf(days, "usd"),
    tokenUnits: sumOf(days, "tokenUnits"),
  }));
  if (by === "day") rows.sort((a, b) => a.key < b.key ? 1 : -1);
  else rows.sort(dearest);
  return {
    all: sumUp(rows.flatMap(({ days }) => days)),
    rows: rows.slice(0, limit).map(({ key, session, days }) => ({ ...sumUp(days), key, session })),
    hasMore: rows.length > limit,
  };
}

/** What all of many came to. */
function sumUp(all: readonly Partial<Sums>[]): Sums {
  const sum: { -readonly [Name in keyof Sums]: number } = { ...sumsOf.nothing };
  for (const sums of all) {
    // Most sums of most days aren't there.
    for (const name of Object.keys(sums) as (keyof Sums)[]) sum[name] += sums[name] ?? 0;
  }
  return sum;
}

function sumOf(all: readonly Partial<Sums>[], name: keyof Sums): number {
  return all.reduce((sum, sums) => sum + (sums[name] ?? 0), 0);
}

/** Where a session's money went. */
export interface SessionSpend {
  /** What its calls came to. */
  readonly all: Sums;
  /** The dearest turns; what was no turn has the number null. */
  readonly turns: readonly (Sums & {
    readonly turn: number | null;
    /** When its first call was answered; null where that isn't known. */
    readonly at: string | null;
  })[];
  /** What results have cost by being carried: by the tool that gave them, and by path or command; the dearest. */
  readonly tools: readonly (Pick<SessionSpend["results"][number], "tokenUnits" | "usd" | "unpricedCalls"> & {
    /** The tool, or the path or command. */
    readonly key: string;
    readonly results: number;
    /** Tokens that they took when they came. */
    readonly tokens: number;
  })[];
  readonly subjects: SessionSpend["tools"];
  /** The ten dearest of them, and the ten dearest of those that still stand in the prompt. */
  readonly results: readonly (
    & Pick<
      PromptReport["blocks"][number],
      "id" | "tool" | "subject" | "tokens" | "originalTokens" | "state" | "pin"
    >
    & {
      /** Position in the history. */
      readonly place: number;
      /** Calls whose prompt held it. */
      readonly calls: number;
      /** What that has cost, by the price that each of them paid. */
      readonly tokenUnits: number;
      readonly usd: number;
      /** Of the calls, those whose price isn't known. */
      readonly unpricedCalls: number;
    }
  )[];
  readonly carried: SessionSpend["results"];
  /**
   * What programs have called that the model wrote; absent if there were none. What they kept outside is no saving: nobody
   * knows what the model would have called instead.
   */
  readonly programs?: {
    readonly programs: number;
    /** Calls that they made, and how many of these failed. */
    readonly calls: number;
    readonly failed: number;
    /** Tokens of what these returned beyond what the programs did: no prompt ever held them. */
    readonly keptTokens: number;
  };
}

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
  seen: SeenConversation,
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
  const turns = new Map<number | null, SessionSpend["turns"][number]>();
  let all = sumsOf.nothing;
  for (const call of calls) {
    const { turn, at } = call;
    const sums = sumsOf.call(call);
    const before = turns.get(turn);
    all = addSums(all, sums);
    turns.set(turn, { ...addSums(before ?? {}, sums), turn, at: before ? before.at : at });
  }
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
    all,
    turns: [...turns.values()].sort(dearest).slice(0, MOST.rows),
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
  seen: SeenConversation,
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
function firstCallsOf({ history: { messages } }: SeenConversation, end: number): readonly number[] {
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

function dearest(
  a: Pick<Sums, "usd" | "tokenUnits">,
  b: Pick<Sums, "usd" | "tokenUnits">,
): number {
  return b.usd - a.usd || b.tokenUnits - a.tokenUnits;
}
