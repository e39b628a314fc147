import type { Cost, InnerCall, Rewrite, Usage } from "@tare/messages";
import { sameData } from "@tare/messages/internal";
import type { KeepAliveEntry, LedgerEntry } from "@tare/planner";
import { callCost, callCostParts, comparedUsd, type Rates } from "@tare/planner/internal/parts";
import type { Store, StoredTotalsRow, StoreRecord } from "../store/port.ts";

/** A model call of a session, with its baseline and rewrites. */
export interface CallReport {
  readonly number: number;
  /** Time of the reply; null if unknown. */
  readonly at: string | null;
  readonly turn: number | null;
  readonly afterQuestion: boolean;
  /** `turn`, or another purpose: `compaction`, `title`, `other`. `unfinished`: the reply ended early. */
  readonly purpose: string;
  /** All prompt tokens: cache reads, cache writes and others. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Tokens written to the cache, as reported by the provider, or 0. */
  readonly writtenTokens: number;
  readonly newTokens: number;
  readonly outputTokens: number;
  readonly estimated: boolean;
  /** Null if standard. */
  readonly tier: string | null;
  /** Null if global. */
  readonly region: string | null;
  readonly serverTools: Readonly<Record<string, number>>;
  /** Model that replaced the requested one; null if none did. */
  readonly servedBy: string | null;
  readonly innerCalls: readonly InnerCall[];
  /** Null if the provider reported none. */
  readonly reportedUsd: number | null;
  /** Prompt and summary in cost units. */
  readonly costUnits: number;
  /** Call and summary in US dollars; null if the price of any part is unknown. */
  readonly usd: number | null;
  readonly spent: SpentReport;
  /** The baseline, including compaction; null without a ledger. */
  readonly baseline: BaselineReport | null;
  /** Null without a ledger, or if the conversation exceeds the window. */
  readonly resendCostUnits: number | null;
  /** Projection of a dry run, including refetches; null if prompts are edited. */
  readonly projected: ProjectedReport | null;
  readonly summary: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens"> | null;
  readonly uncached: LedgerEntry["uncached"];
  /** The client's change of its earlier messages; null if there is none. */
  readonly changed: NonNullable<LedgerEntry["changed"]> | null;
  readonly rewrites: readonly Rewrite[];
}

/** Cost by part. */
export type SpentOn = Readonly<Record<(typeof SPENT_ON)[number], number>>;

/** Cost by part, in both units. */
export interface SpentReport {
  readonly costUnits: SpentOn;
  readonly usd: SpentOn | null;
}

/** Baseline cost of a call. */
export interface BaselineReport
  extends Pick<Usage, "promptTokens" | "cachedTokens">, Pick<CallReport, "costUnits" | "usd"> {
  /** Whether the client would have compacted the conversation before it. */
  readonly compacts: boolean;
}

/** Projected cost of a call. */
export interface ProjectedReport
  extends Pick<CallReport, "promptTokens" | "cachedTokens" | "costUnits" | "usd"> {
  readonly refetchCostUnits: number;
}

/** Parts of a call report, in addition to the usage. */
export interface CallReportOptions extends Pick<CallReport, "number" | "at" | "turn" | "purpose"> {
  readonly ledger?: LedgerEntry | undefined;
  readonly rates: Rates;
  /** Cost as of the call. Default: by these rates. */
  readonly cost?: Cost | undefined;
  readonly rewrites?: readonly Rewrite[];
  readonly afterQuestion?: boolean;
}

/** Purpose of a call whose reply ended early; its usage is estimated. */
export const UNFINISHED = "unfinished";

/**
 * Returns the report of a call from its usage and ledger entry.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { reportCall } from "@tare/session/internal/report";
 *
 * const usage = { promptTokens: 1_000, cachedTokens: 800, outputTokens: 20 };
 * const rates = { profile: profileNamed("openai"), price: undefined };
 * const { newTokens, usd } = reportCall(usage, { number: 1, at: null, turn: 1, purpose: "turn", rates });
 * assertEquals([newTokens, usd], [200, null]);
 * ```
 */
export function reportCall(
  usage: Usage,
  { ledger, rates, cost: its = callCost(usage, rates), rewrites = [], afterQuestion = false, ...rest }:
    CallReportOptions,
): CallReport {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, estimated = false } = usage;
  const { tier = null, region = null, serverTools = {}, model = null, innerCalls = [], reportedUsd = null } =
    usage;
  const { summary } = ledger ?? {};
  const paid = summary && callCost(summary, rates);
  const isUnpriced = its.usd === undefined || (paid && paid.usd === undefined);
  return {
    ...rest,
    afterQuestion,
    promptTokens,
    cachedTokens,
    writtenTokens: cacheWriteTokens,
    newTokens: promptTokens - cachedTokens - cacheWriteTokens,
    outputTokens,
    estimated,
    ...{ tier, region, serverTools, servedBy: model, innerCalls, reportedUsd },
    costUnits: its.costUnits + (paid?.costUnits ?? 0),
    usd: isUnpriced ? null : its.usd! + (paid?.usd ?? 0),
    spent: splitCost(usage, { cost: its, rates, uncached: ledger?.uncached, summary: paid }),
    baseline: ledger ? reportBaseline(ledger, rates) : null,
    resendCostUnits: ledger?.resendCostUnits ?? null,
    projected: ledger?.projected ? reportProjected(ledger.projected, { ledger, rates }) : null,
    summary: summary
      ? {
        promptTokens: summary.promptTokens,
        cachedTokens: summary.cachedTokens,
        outputTokens: summary.outputTokens,
      }
      : null,
    uncached: ledger?.uncached ?? [],
    changed: ledger?.changed ?? null,
    rewrites,
  };
}

function reportBaseline(ledger: LedgerEntry, rates: Rates): BaselineReport {
  const { usage: actual, baseline, baselineCompaction, baselineCostUnits, costUnits: actualUnits } = ledger;
  const { promptTokens, cachedTokens } = baseline;
  const usages = [baseline, ...(baselineCompaction ? [baselineCompaction] : [])];
  const usd = comparedUsd(usages, { actual, rates, costUnits: baselineCostUnits, actualUnits });
  return {
    promptTokens,
    cachedTokens,
    costUnits: baselineCostUnits,
    usd: usd ?? null,
    compacts: baselineCompaction !== undefined,
  };
}

function reportProjected(
  { promptTokens, cachedTokens, costUnits, refetchCostUnits }: NonNullable<LedgerEntry["projected"]>,
  { ledger: { usage, costUnits: actualUnits }, rates }: {
    readonly ledger: LedgerEntry;
    readonly rates: Rates;
  },
): ProjectedReport {
  const { cacheWriteTokens: _, hourWriteTokens: __, firstRead: ___, reportedUsd: ____, ...billed } = usage;
  const { serverTools: _____, innerCalls: ______, ...rated } = billed;
  // Refetches are estimated at the price of input tokens.
  const refetches = { promptTokens: refetchCostUnits, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  const usd = comparedUsd(
    [{ ...billed, promptTokens, cachedTokens }, { ...rated, ...refetches }],
    { actual: usage, rates, costUnits, actualUnits },
  );
  return { ...{ promptTokens, cachedTokens, costUnits, refetchCostUnits }, usd: usd ?? null };
}

/** Parts of a cost, which add up to the total. */
export const SPENT_ON = [
  "cacheRead",
  // New tokens, including cache writes.
  "new",
  // Tokens whose cache entry had expired.
  "expired",
  // Tokens moved by Tare's rewrites, and their summaries.
  "ownRewrite",
  // Tokens after a change of tools, model or earlier messages.
  "changed",
  // Tokens missing from the provider's cache before expiry.
  "lost",
  "output",
  // The provider's own tools, and model calls inside a call.
  "serverSide",
  // Keep-alive requests; zero for single calls.
  "keepAlive",
] as const;

const NOTHING = Object.fromEntries(SPENT_ON.map((part) => [part, 0])) as SpentOn;

/** Defaults of most calls, which aren't stored. */
const USUAL_CALL: Readonly<Record<string, unknown>> = {
  afterQuestion: false,
  cachedTokens: 0,
  writtenTokens: 0,
  estimated: false,
  tier: null,
  region: null,
  serverTools: {},
  servedBy: null,
  innerCalls: [],
  reportedUsd: null,
  spent: { costUnits: NOTHING, usd: NOTHING },
  baseline: null,
  resendCostUnits: null,
  projected: null,
  summary: null,
  uncached: [],
  changed: null,
  rewrites: [],
};

/** Returns the stored form of a call, without the defaults: half of its JSON. */
export function callToStore(call: Omit<CallReport, "number">): Readonly<Record<string, unknown>> {
  return withoutUsual({ ...call }, USUAL_CALL);
}

/** Returns the call of its stored form. */
export function storedCall(stored: Readonly<Record<string, unknown>>, number: number): CallReport {
  return { ...withUsual(stored, USUAL_CALL), number } as unknown as CallReport;
}

function withoutUsual(
  members: Readonly<Record<string, unknown>>,
  usual: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const unusual = Object.entries(members).filter(([name, member]) => !sameData(member, usual[name]));
  return Object.fromEntries(unusual.map(([name, member]) => {
    const its = usual[name];
    return [name, isMembers(member) && isMembers(its) ? withoutUsual(member, its) : member];
  }));
}

function withUsual(
  members: Readonly<Record<string, unknown>>,
  usual: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const both = Object.entries(members).map(([name, member]) => {
    const its = usual[name];
    return [name, isMembers(member) && isMembers(its) ? withUsual(member, its) : member] as const;
  });
  return { ...usual, ...Object.fromEntries(both) };
}

function isMembers(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const PARTS: Readonly<Record<LedgerEntry["uncached"][number]["cause"], keyof SpentOn>> = {
  first_call: "new",
  new: "new",
  own_rewrite: "ownRewrite",
  tools_changed: "changed",
  model_changed: "changed",
  client_changed: "changed",
  not_marked: "new",
  expired: "expired",
  provider_lost: "lost",
};

/**
 * Splits a call's cost: the prompt in cost units, prompt and reply in US dollars. All uncached tokens cost the same;
 * those without a reason are new.
 */
function splitCost(
  usage: Usage,
  { cost, rates, uncached = [], summary }: {
    readonly cost: Cost;
    readonly rates: Rates;
    /** Default: unknown. */
    readonly uncached?: LedgerEntry["uncached"] | undefined;
    readonly summary?: Cost | undefined;
  },
): SpentReport {
  const rated = callCost(usage, rates);
  const parts = callCostParts(usage, rates);
  const tokens = usage.promptTokens - usage.cachedTokens;
  const cut = (unit: "costUnits" | "usd", whole: number, more = 0): SpentOn => {
    // Prices may have changed since; without a price the prompt's cost decides.
    const by = rated[unit] ? unit : "costUnits";
    const times = rated[by] ? whole / rated[by] : 0;
    const [cached = 0, missed = 0, output = 0, serverSide = 0] = [
      parts.cached,
      parts.uncached,
      parts.output,
      parts.serverSide,
    ].map((part) => times * (part[by] ?? 0));
    const sum: Record<keyof SpentOn, number> = {
      ...{ ...NOTHING, cacheRead: cached, output, serverSide },
      ownRewrite: more,
    };
    let left = missed;
    for (const { cause, tokens: its } of uncached) {
      const share = tokens > 0 ? missed * its / tokens : 0;
      sum[PARTS[cause]] += share;
      left -= share;
    }
    sum.new += left;
    return sum;
  };
  return {
    costUnits: cut("costUnits", cost.costUnits, summary?.costUnits),
    usd: cost.usd === undefined || (summary && summary.usd === undefined)
      ? null
      : cut("usd", cost.usd, summary?.usd),
  };
}

/**
 * Totals and the amount that a call adds to each; null: counted elsewhere. Prompts are in cost units (one = one uncached
 * input token), dollars include replies.
 */
export const TOTALS = {
  calls: (): number => 1,
  errors: null,
  /** Answered recall calls that clients don't see. */
  recalls: null,
  compactions: null,
  promptTokens: ({ promptTokens, summary }: CallReport): number =>
    promptTokens + (summary?.promptTokens ?? 0),
  cachedTokens: ({ cachedTokens, summary }: CallReport): number =>
    cachedTokens + (summary?.cachedTokens ?? 0),
  outputTokens: ({ outputTokens, summary }: CallReport): number =>
    outputTokens + (summary?.outputTokens ?? 0),
  /** Evicted prompt tokens, summed over the calls. */
  savedTokens: null,
  costUnits: ({ costUnits }: CallReport): number => costUnits,
  /** Actual cost for calls without a ledger. */
  baselineCostUnits: ({ baseline, costUnits }: CallReport): number => baseline?.costUnits ?? costUnits,
  baselineCompactions: ({ baseline }: CallReport): number => baseline?.compacts ? 1 : 0,
  /** Calls whose whole conversation fits the window. */
  fittingCalls: ({ resendCostUnits }: CallReport): number => resendCostUnits === null ? 0 : 1,
  fittingCostUnits: ({ resendCostUnits, costUnits }: CallReport): number =>
    resendCostUnits === null ? 0 : costUnits,
  resendCostUnits: ({ resendCostUnits }: CallReport): number => resendCostUnits ?? 0,
  compactionCostUnits: null,
  usd: ({ usd }: CallReport): number => usd ?? 0,
  baselineUsd: ({ baseline, usd }: CallReport): number => (baseline ? baseline.usd : usd) ?? 0,
  /** Actual cost for calls without a projection. */
  projectedCostUnits: ({ projected, costUnits }: CallReport): number => projected?.costUnits ?? costUnits,
  projectedUsd: ({ projected, usd }: CallReport): number => (projected ? projected.usd : usd) ?? 0,
  refetchCostUnits: ({ projected }: CallReport): number => projected?.refetchCostUnits ?? 0,
  compactionUsd: null,
  /** Calls and keep-alive requests with an unknown price, excluded from the dollars. */
  unpricedCalls: ({ usd }: CallReport): number => usd === null ? 1 : 0,
  estimatedCalls: ({ estimated }: CallReport): number => estimated ? 1 : 0,
  keepAliveRequests: null,
  /** Cost of cache misses that keep-alive requests avoided: the baseline includes it too. */
  keepAliveCreditCostUnits: null,
  programs: null,
  /** Tool calls by programs, and the failed ones. */
  programCalls: null,
  failedProgramCalls: null,
  // In one line: a line break in it would break the emitted types.
  /** Tokens of these calls' results that no prompt contained. No saving: the model's alternative calls are unknown. */
  programOmittedTokens: null,
};

/** Totals by name: {@linkcode TOTALS} and the cost parts in both units. */
export interface UsageTotals
  extends
    Readonly<Record<keyof typeof TOTALS, number>>,
    Readonly<Record<`${(typeof SPENT_ON)[number]}${"Usd" | "CostUnits"}`, number>> {}

const AMOUNTS: readonly (readonly [name: keyof UsageTotals, of: ((call: CallReport) => number) | null])[] = [
  ...Object.entries(TOTALS) as [keyof typeof TOTALS, ((call: CallReport) => number) | null][],
  ...SPENT_ON.map((part) => [`${part}Usd`, ({ spent }: CallReport) => spent.usd?.[part] ?? 0] as const),
  ...SPENT_ON.map((part) => [`${part}CostUnits`, ({ spent }: CallReport) => spent.costUnits[part]] as const),
];

const NO_TOTALS = Object.fromEntries(AMOUNTS.map(([name]) => [name, 0])) as unknown as UsageTotals;

function totalsBy(amount: (name: keyof UsageTotals, of: typeof AMOUNTS[number][1]) => number): UsageTotals {
  const totals: { -readonly [Name in keyof UsageTotals]: number } = { ...NO_TOTALS };
  for (const [name, of] of AMOUNTS) totals[name] = amount(name, of);
  return totals;
}

/** Totals by UTC day and requested model: `2026-01-31 some-model`, or the day alone if the model is unknown. */
export type Days = Readonly<Record<string, Partial<UsageTotals>>>;

/** Whether sessions are planned or in the holdout. */
export type SessionGroup = "planned" | "holdout";

/** Totals of a group. */
export interface GroupTotals extends UsageTotals {
  readonly sessions: number;
}

/** Totals and averages of a group. */
export interface GroupReport extends GroupTotals {
  readonly costUnitsPerSession: number;
  /** Baseline cost of planned sessions, to compare with the cost of the holdout. */
  readonly baselineCostUnitsPerSession: number;
  /** Projected cost of the holdout, to compare with the cost of planned sessions. */
  readonly projectedCostUnitsPerSession: number;
  readonly callsPerSession: number;
  readonly usdPerSession: number | null;
}

/** Both groups. */
export type LedgerReport = Readonly<Record<SessionGroup, GroupReport>>;

/** A warning for users. */
export interface WarningReport {
  readonly at: string;
  readonly session: string;
  readonly message: string;
}

/** Estimated savings, and the comparison with the holdout. */
export interface Overview {
  readonly today: UsageTotals;
  /** Totals of all sessions; of a gateway without a store, since its start. */
  readonly all: UsageTotals;
  readonly groups: Readonly<Record<SessionGroup, GroupTotals>>;
  readonly warnings: readonly WarningReport[];
}

export function addTotals(a: Partial<UsageTotals>, b: Partial<UsageTotals>): UsageTotals {
  return totalsBy((name) => (a[name] ?? 0) + (b[name] ?? 0));
}

/** Returns days with totals added to a model on the day of a time in milliseconds. */
export function addToDay(
  days: Days,
  more: Partial<UsageTotals>,
  { atMs, model }: { readonly atMs: number; readonly model: string },
): Days {
  const key = `${dayOf(atMs)} ${model}`.trimEnd();
  return { ...days, [key]: withoutZeros(addTotals(days[key] ?? {}, more)) };
}

/** Lists read thousands of sessions. */
function withoutZeros(totals: UsageTotals): Partial<UsageTotals> {
  return Object.fromEntries(Object.entries(totals).filter(([, sum]) => sum !== 0));
}

/** Returns the sum of days. */
export function addDays(days: Days, more: Days): Days {
  const totals: Record<string, Partial<UsageTotals>> = { ...days };
  for (const [key, its] of Object.entries(more)) {
    const sum = withoutZeros(addTotals(totals[key] ?? {}, its));
    if (key in totals || Object.keys(sum).length > 0) totals[key] = sum;
  }
  return totals;
}

/** Returns the day and model of a key of {@linkcode Days}; the model is empty if unknown. */
export function dayAndModel(key: string): { readonly day: string; readonly model: string } {
  return { day: key.slice(0, DAY_CHARS), model: key.slice(DAY_CHARS + 1) };
}

const DAY_CHARS = "2026-01-31".length;

/** Bounds of all days in text order. */
export const FIRST_DAY = "0000-00-00";
export const LAST_DAY = "9999-99-99";

export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Fields that group a stored total, in addition to kind, key and day. */
export interface SummedBy {
  readonly group: SessionGroup;
  readonly model?: string;
  readonly agent?: string | null;
}

export function aboutOf({ about }: Pick<StoredTotalsRow, "about">): SummedBy {
  return JSON.parse(about);
}

function aboutText(about: SummedBy): string {
  return JSON.stringify(about);
}

function totalsBeyond(totals: Partial<UsageTotals>, before: Partial<UsageTotals> = {}): UsageTotals {
  return addTotals(totals, Object.fromEntries(Object.entries(before).map(([name, sum]) => [name, -sum])));
}

/** Functions that return {@linkcode UsageTotals}. */
export const usageTotals: {
  readonly nothing: UsageTotals;
  call(call: CallReport): UsageTotals;
  /** Returns the totals of a keep-alive request, whose baseline is zero. */
  keepAlive(keepAlive: KeepAliveEntry, rates: Rates): Partial<UsageTotals>;
  all(some: readonly Partial<UsageTotals>[]): UsageTotals;
  days(days: Days): UsageTotals;
  today(all: readonly Days[], nowMs: number): UsageTotals;
} = {
  nothing: NO_TOTALS,
  call: (call) => totalsBy((_, of) => of?.(call) ?? 0),
  keepAlive({ usage }, rates) {
    const { costUnits, usd: known } = callCost(usage, rates);
    const usd = known ?? 0;
    return {
      ...{ keepAliveRequests: 1, costUnits, usd, keepAliveCostUnits: costUnits, keepAliveUsd: usd },
      ...(known === undefined && { unpricedCalls: 1 }),
      // The projection includes keep-alive requests, which the holdout doesn't have.
      ...{ projectedCostUnits: costUnits, projectedUsd: usd },
    };
  },
  all(some) {
    return some.reduce<UsageTotals>(addTotals, NO_TOTALS);
  },
  days(days) {
    return usageTotals.all(Object.values(days));
  },
  today(all, nowMs) {
    const day = dayOf(nowMs);
    const today = all.flatMap((days) =>
      Object.entries(days).flatMap(([key, totals]) => dayAndModel(key).day === day ? totals : [])
    );
    return usageTotals.all(today);
  },
};

interface Account {
  readonly sessions: number;
  readonly all: UsageTotals;
  readonly days: Days;
}

/** Filter of totals. */
export interface AccountsQuery extends Pick<StoredTotalsRow, "kind" | "by"> {
  /** Current time in milliseconds since the epoch; its day is read separately. */
  readonly nowMs: number;
}

/** Totals of a session. */
export interface SessionTotalsRecord {
  readonly group: SessionGroup;
  readonly agent: string | null;
  readonly days: Days;
  /** Previous totals. Default: none. */
  readonly before?: Days;
  /** Default: no. */
  readonly isBegun?: boolean;
}

/** Totals to be added. */
export interface AddedSessions {
  readonly sessions: number;
  readonly days: Days;
}

/** Totals of sessions by day and group. */
export class Accounts {
  readonly #groups: Record<SessionGroup, Account> = {
    planned: { sessions: 0, all: NO_TOTALS, days: {} },
    holdout: { sessions: 0, all: NO_TOTALS, days: {} },
  };

  /** Adds the stored totals of a kind and key, including deleted sessions. @throws {StoreError} */
  async read(store: Pick<Store, "readTotals">, { nowMs, ...which }: AccountsQuery): Promise<void> {
    const days = ["", dayOf(nowMs)];
    const read = await Promise.all(days.map((day) => store.readTotals({ ...which, from: day, to: day })));
    for (const { day, totals, ...rest } of read.flat()) {
      const { group } = aboutOf(rest);
      const { [group]: { sessions, all, days } } = this.#groups;
      this.#groups[group] = day === ""
        ? { sessions: sessions + (totals["sessions"] ?? 0), all: addTotals(all, totals), days }
        : { sessions, all, days: addDays(days, { [day]: totals }) };
    }
  }

  /**
   * Returns the record that adds a session's totals since `before` to the store's: per day by model and agent, and of
   * all days.
   */
  static records(
    sessionId: string,
    { group, agent, days, before = {}, isBegun = false }: SessionTotalsRecord,
  ): readonly StoreRecord[] {
    const more = new Map<string, UsageTotals>();
    let all = NO_TOTALS;
    for (const [key, totals] of Object.entries(days)) {
      const { [key]: known } = before;
      if (known === totals) continue;
      const added = totalsBeyond(totals, known);
      const { day, model } = dayAndModel(key);
      const name = `${day} ${model}`;
      more.set(name, addTotals(more.get(name) ?? {}, added));
      all = addTotals(all, added);
    }
    const added = Array.from(more, ([name, totals]) => {
      const { day, model } = dayAndModel(name);
      return { day, about: aboutText({ group, model, agent }), totals: withoutZeros(totals) };
    });
    const whole = { ...withoutZeros(all), ...(isBegun && { sessions: 1 }) };
    const every = [...added, { day: "", about: aboutText({ group }), totals: whole }];
    const recorded = every.filter(({ totals }) => Object.keys(totals).length > 0);
    return recorded.length === 0 ? [] : [{ type: "totals", sessionId, added: recorded }];
  }

  static daysBeyond(days: Days, before: Days): Days {
    return Object.fromEntries(
      Object.entries(days).map(([day, totals]) => [day, totalsBeyond(totals, before[day])]),
    );
  }

  add(group: SessionGroup, { sessions, days }: AddedSessions): void {
    const before = this.#groups[group];
    this.#groups[group] = {
      sessions: before.sessions + sessions,
      all: addTotals(before.all, usageTotals.days(days)),
      days: addDays(before.days, days),
    };
  }

  overview(nowMs: number, warnings: readonly WarningReport[]): Overview {
    const { planned, holdout } = this.#groups;
    const groups = {
      planned: { ...planned.all, sessions: planned.sessions },
      holdout: { ...holdout.all, sessions: holdout.sessions },
    };
    return {
      today: usageTotals.today([planned.days, holdout.days], nowMs),
      all: addTotals(planned.all, holdout.all),
      groups,
      warnings,
    };
  }

  report(): LedgerReport {
    return { planned: withAverages(this.#groups.planned), holdout: withAverages(this.#groups.holdout) };
  }
}

function withAverages({ sessions, all: totals }: Account): GroupReport {
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return {
    ...totals,
    sessions,
    costUnitsPerSession: each(totals.costUnits),
    baselineCostUnitsPerSession: each(totals.baselineCostUnits),
    projectedCostUnitsPerSession: each(totals.projectedCostUnits),
    callsPerSession: each(totals.calls),
    usdPerSession: totals.unpricedCalls > 0 ? null : each(totals.usd),
  };
}

export const MAX_WARNINGS = 100;

/** The newest warnings, without duplicates per session. */
export class ReportedWarnings {
  #reported: readonly WarningReport[] = [];

  get list(): readonly WarningReport[] {
    return this.#reported;
  }

  add(warning: WarningReport): void {
    const { session, message } = warning;
    const others = this.#reported.filter((one) => one.session !== session || one.message !== message);
    this.#reported = [warning, ...others].slice(0, MAX_WARNINGS);
  }
}
