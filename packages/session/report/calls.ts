import type { Cost, Rewrite, Usage } from "@tare/messages";
import { sameData } from "@tare/messages/internal";
import type { LedgerEntry, PingEntry } from "@tare/planner";
import { callCost, callCostParts, type Rates } from "@tare/planner/internal/parts";
import type { Store, StoredSums, StoreRecord } from "../store/port.ts";

/** One model call of a session: what it took, what it would have taken without Tare, what was rewritten for it. */
export interface CallReport {
  /** Number of the call in its session, from 1. */
  readonly number: number;
  /** When it was answered; null where that isn't known. */
  readonly at: string | null;
  /** Number of the turn that it belongs to, from 1; null where turns aren't counted. */
  readonly turn: number | null;
  /** Whether somebody had to answer a question of its turn before it was made. */
  readonly afterQuestion: boolean;
  /**
   * `turn`, or what it was made for that is no turn: `compaction`, `title`, `other`. `unfinished`: its reply did not reach
   * its end.
   */
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
  /** What both were paid for. All parts together are the whole. */
  readonly spent: SpentReport;
  /**
   * What the client would have paid for it without Tare, what it would have paid for compacting before it included; null
   * where no ledger is kept.
   */
  readonly without: BaselineReport | null;
  /** What resending everything would have cost; null where no ledger is kept, or where that doesn't fit the window. */
  readonly resendTokenUnits: number | null;
  /**
   * What the planner would have made of a prompt that was left as it is, with what reading things back is expected to cost;
   * null where prompts are edited.
   */
  readonly projected: ProjectedReport | null;
  /** What a model took that was asked for a summary before this call. */
  readonly summary: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens"> | null;
  /** Why tokens were not read from the cache. */
  readonly uncached: LedgerEntry["uncached"];
  /** What its client had changed of what it had sent before; null if nothing. */
  readonly changed: NonNullable<LedgerEntry["changed"]> | null;
  /** What was rewritten before it, and why, in words. */
  readonly rewrites: readonly Rewrite[];
}

/** Parts of a cost, by name. */
export type SpentOn = Readonly<Record<(typeof SPENT_ON)[number], number>>;

/** The parts of a call's cost. */
export interface SpentReport {
  readonly tokenUnits: SpentOn;
  /** Null where the price is unknown. */
  readonly usd: SpentOn | null;
}

/** What a call's client would have paid without Tare. */
export interface BaselineReport
  extends Pick<Usage, "promptTokens" | "cachedTokens">, Pick<CallReport, "tokenUnits" | "usd"> {
  /** Whether its client would have compacted the conversation before it. */
  readonly compacts: boolean;
}

/** What the planner would have made of a prompt. */
export interface ProjectedReport
  extends Pick<CallReport, "promptTokens" | "cachedTokens" | "tokenUnits" | "usd"> {
  /** The part of the token units that is the estimate of refetches. */
  readonly repairTokenUnits: number;
}

/** A call to be reported. */
export interface ReportedCall extends Pick<CallReport, "number" | "at" | "turn" | "purpose"> {
  /** Absent: no ledger is kept. */
  readonly ledger?: LedgerEntry | undefined;
  readonly rates: Rates;
  /** What the call cost when it was made. Default: what it costs by these rates. */
  readonly cost?: Cost | undefined;
  /** Default: none. */
  readonly rewrites?: readonly Rewrite[];
  /** Default: false. */
  readonly afterQuestion?: boolean;
}

/** Purpose of a call whose reply did not reach its end: what it took is estimated, by its prompt and what was streamed. */
export const UNFINISHED = "unfinished";

/**
 * Returns what a call took, by what the provider reported and what the ledger has of it.
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
  { ledger, rates, cost: its = callCost(usage, rates), rewrites = [], afterQuestion = false, ...told }:
    ReportedCall,
): CallReport {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens, estimated = false } = usage;
  const { summary } = ledger ?? {};
  const paid = summary && callCost(summary, rates);
  return {
    ...told,
    afterQuestion,
    promptTokens,
    cachedTokens,
    writtenTokens: cacheWriteTokens,
    newTokens: promptTokens - cachedTokens - cacheWriteTokens,
    outputTokens,
    estimated,
    tokenUnits: its.tokenUnits + (paid?.tokenUnits ?? 0),
    usd: its.usd === undefined ? null : its.usd + (paid?.usd ?? 0),
    spent: cutCost(usage, { cost: its, rates, uncached: ledger?.uncached, summary: paid }),
    without: ledger ? reportAlone(ledger, rates) : null,
    resendTokenUnits: ledger?.resendTokenUnits ?? null,
    projected: ledger?.projected ? reportProjected(ledger.projected, { outputTokens, rates }) : null,
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

function reportAlone(
  { without, withoutCompaction, withoutTokenUnits }: LedgerEntry,
  rates: Rates,
): BaselineReport {
  const { promptTokens, cachedTokens } = without;
  const { usd } = callCost(without, rates);
  const more = withoutCompaction ? callCost(withoutCompaction, rates).usd : 0;
  return {
    promptTokens,
    cachedTokens,
    tokenUnits: withoutTokenUnits,
    usd: usd === undefined || more === undefined ? null : usd + more,
    compacts: withoutCompaction !== undefined,
  };
}

function reportProjected(
  { promptTokens, cachedTokens, tokenUnits, repairTokenUnits }: NonNullable<LedgerEntry["projected"]>,
  { outputTokens, rates }: { readonly outputTokens: number; readonly rates: Rates },
): ProjectedReport {
  const { usd } = callCost({ promptTokens, cachedTokens, outputTokens }, rates);
  // Repairs are reckoned in the price of a prompt token.
  const repairs = repairTokenUnits * (rates.price?.input ?? 0) / 1e6;
  return {
    ...{ promptTokens, cachedTokens, tokenUnits, repairTokenUnits },
    usd: usd === undefined ? null : usd + repairs,
  };
}

/** Parts of a cost. All parts together are the whole. */
export const SPENT_ON = [
  // The part of the prompt that was read from the cache.
  "cacheRead",
  // New tokens, the first call's prompt included; where the provider does that they were written to the cache.
  "new",
  // Tokens that had been cached, and were no longer: the call followed after the cache's time.
  "expired",
  // Tokens that moved because Tare rewrote the prompt, and summaries that were made for that.
  "ownRewrite",
  // Tokens after a change of tools, of the model, or of what the client had sent before.
  "changed",
  // Tokens that the provider's cache didn't have though its time wasn't over.
  "lost",
  // The reply.
  "output",
  // Requests that kept prompts warm between calls. Zero for single calls.
  "ping",
] as const;

const NOTHING = Object.fromEntries(SPENT_ON.map((part) => [part, 0])) as SpentOn;

/** What most calls have in common. */
const USUAL_CALL: Readonly<Record<string, unknown>> = {
  afterQuestion: false,
  cachedTokens: 0,
  writtenTokens: 0,
  estimated: false,
  spent: { tokenUnits: NOTHING, usd: NOTHING },
  without: null,
  resendTokenUnits: null,
  projected: null,
  summary: null,
  uncached: [],
  changed: null,
  rewrites: [],
};

/** Returns what is to be stored of a call: half of its JSON says what is so of most calls, and is omitted. */
export function callToStore(call: Omit<CallReport, "number">): Readonly<Record<string, unknown>> {
  return withoutUsual({ ...call }, USUAL_CALL);
}

/** Returns a call as it was before {@linkcode callToStore}, with its number. */
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

/** Which part the tokens of a cause belong to. */
const PARTS: Readonly<Record<LedgerEntry["uncached"][number]["cause"], keyof SpentOn>> = {
  first_call: "new",
  new: "new",
  own_rewrite: "ownRewrite",
  tools_changed: "changed",
  model_changed: "changed",
  client_changed: "changed",
  // It was in no cache before.
  not_marked: "new",
  expired: "expired",
  provider_lost: "lost",
};

/**
 * What a call was paid for: its prompt in token units, prompt and reply in US dollars, null where its price isn't known.
 * Within what the cache didn't serve each token is taken for as dear as any other; of what no cause is known is new.
 */
function cutCost(
  usage: Usage,
  { cost, rates, uncached = [], summary }: {
    /** What the call cost when it was made. */
    readonly cost: Cost;
    readonly rates: Rates;
    /** Why tokens weren't read from the cache. Default: nobody knows. */
    readonly uncached?: LedgerEntry["uncached"] | undefined;
    /** What a summary cost that was made for it. */
    readonly summary?: Cost | undefined;
  },
): SpentReport {
  const rated = callCost(usage, rates);
  const parts = callCostParts(usage, rates);
  const tokens = usage.promptTokens - usage.cachedTokens;
  const cut = (unit: "tokenUnits" | "usd", whole: number, more = 0): SpentOn => {
    // Prices may have changed since; without any, the prompt's price tells.
    const by = rated[unit] ? unit : "tokenUnits";
    const times = rated[by] ? whole / rated[by] : 0;
    const [cached = 0, missed = 0, output = 0] = [parts.cached, parts.uncached, parts.output]
      .map((part) => times * (part[by] ?? 0));
    const sum: Record<keyof SpentOn, number> = { ...NOTHING, cacheRead: cached, output, ownRewrite: more };
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
    tokenUnits: cut("tokenUnits", cost.tokenUnits, summary?.tokenUnits),
    usd: cost.usd === undefined ? null : cut("usd", cost.usd, summary?.usd),
  };
}

/**
 * Totals of calls, and the amount that a call adds to each. Prompts in token units, of which the price of one uncached input
 * token is 1; dollars include replies, as far as prices are known. Null: nothing; what it counts is recorded where it happens.
 */
export const TOTALS = {
  /** Model calls that succeeded. */
  calls: (): number => 1,
  /** Those that failed. */
  errors: null,
  /** Answers to calls of the recall tool that clients don't see. */
  recalls: null,
  /** Calls by which clients had a conversation summarized, to continue from the summary. */
  compactions: null,
  promptTokens: ({ promptTokens, summary }: CallReport): number =>
    promptTokens + (summary?.promptTokens ?? 0),
  cachedTokens: ({ cachedTokens, summary }: CallReport): number =>
    cachedTokens + (summary?.cachedTokens ?? 0),
  outputTokens: ({ outputTokens, summary }: CallReport): number =>
    outputTokens + (summary?.outputTokens ?? 0),
  /** Prompt tokens that were evicted, summed over the calls. */
  savedTokens: null,
  /** Cost of the prompts, in token units. */
  tokenUnits: ({ tokenUnits }: CallReport): number => tokenUnits,
  /** The baseline: what clients would have paid without Tare; of calls without a ledger what they did cost. */
  withoutTokenUnits: ({ without, tokenUnits }: CallReport): number => without?.tokenUnits ?? tokenUnits,
  /** How often they would have compacted a conversation that their window doesn't hold. */
  withoutCompactions: ({ without }: CallReport): number => without?.compacts ? 1 : 0,
  /** Calls whose whole conversation fits the window, what they cost, and what resending everything would have. */
  fittingCalls: ({ resendTokenUnits }: CallReport): number => resendTokenUnits === null ? 0 : 1,
  fittingTokenUnits: ({ resendTokenUnits, tokenUnits }: CallReport): number =>
    resendTokenUnits === null ? 0 : tokenUnits,
  resendTokenUnits: ({ resendTokenUnits }: CallReport): number => resendTokenUnits ?? 0,
  /** Of the token units, those of compactions. */
  compactionTokenUnits: null,
  /** The same in US dollars. */
  usd: ({ usd }: CallReport): number => usd ?? 0,
  withoutUsd: ({ without, usd }: CallReport): number => (without ? without.usd : usd) ?? 0,
  /** What the planner would have made of calls that were only observed, refetches included; of others what they did cost. */
  projectedTokenUnits: ({ projected, tokenUnits }: CallReport): number => projected?.tokenUnits ?? tokenUnits,
  projectedUsd: ({ projected, usd }: CallReport): number => (projected ? projected.usd : usd) ?? 0,
  /** Of the projected token units, the estimate of what refetches cost. */
  repairTokenUnits: ({ projected }: CallReport): number => projected?.repairTokenUnits ?? 0,
  compactionUsd: null,
  /** Calls whose price is unknown, so that no dollars are counted for them. */
  unpricedCalls: ({ usd }: CallReport): number => usd === null ? 1 : 0,
  /** Calls whose provider reported no usage, so that their tokens were counted here. */
  estimatedCalls: ({ estimated }: CallReport): number => estimated ? 1 : 0,
  /** Keep-alive requests; what they cost is among the token units and dollars. */
  pings: null,
  /** What calls saved by finding what pings had kept warm: they would have cost that without Tare too. */
  pingCreditTokenUnits: null,
  /** Programs that the model wrote. */
  programs: null,
  /** Calls that they made, and those of them that failed. */
  programCalls: null,
  failedProgramCalls: null,
  // In one line: a line break in it would break the emitted types.
  /** Tokens of these calls' results that no prompt ever held. No saving: what the model would have called is unknown. */
  programKeptTokens: null,
};

/** Totals by name: those of {@linkcode TOTALS}, and the parts of the cost, in both units. */
export interface Sums
  extends
    Readonly<Record<keyof typeof TOTALS, number>>,
    Readonly<Record<`${(typeof SPENT_ON)[number]}${"Usd" | "TokenUnits"}`, number>> {}

const AMOUNTS: readonly (readonly [name: keyof Sums, of: ((call: CallReport) => number) | null])[] = [
  ...Object.entries(TOTALS) as [keyof typeof TOTALS, ((call: CallReport) => number) | null][],
  ...SPENT_ON.map((part) => [`${part}Usd`, ({ spent }: CallReport) => spent.usd?.[part] ?? 0] as const),
  ...SPENT_ON.map((part) =>
    [`${part}TokenUnits`, ({ spent }: CallReport) => spent.tokenUnits[part]] as const
  ),
];

const NO_SUMS = Object.fromEntries(AMOUNTS.map(([name]) => [name, 0])) as unknown as Sums;

function sumsBy(amount: (name: keyof Sums, of: typeof AMOUNTS[number][1]) => number): Sums {
  const sums: { -readonly [Name in keyof Sums]: number } = { ...NO_SUMS };
  for (const [name, of] of AMOUNTS) sums[name] = amount(name, of);
  return sums;
}

/**
 * What calls came to by the day of UTC on which they were answered and the model that was asked: `2026-01-31 some-model`,
 * or the day alone where no model was noted. What isn't there is zero.
 */
export type Days = Readonly<Record<string, Partial<Sums>>>;

/** Whether sessions are planned, or left as they are to compare with. */
export type SessionGroup = "planned" | "control";

/** What a group of sessions came to. */
export interface GroupSums extends Sums {
  readonly sessions: number;
}

/** The same with the averages by which groups are compared. */
export interface GroupReport extends GroupSums {
  readonly tokenUnitsPerSession: number;
  /** What edited sessions would have cost without Tare, next to what those did that were left as they are. */
  readonly withoutTokenUnitsPerSession: number;
  /** What those that were left as they are would have cost with Tare, next to what edited ones did. */
  readonly projectedTokenUnitsPerSession: number;
  readonly callsPerSession: number;
  /** Dollars for each session; null where the price of a call is unknown. */
  readonly usdPerSession: number | null;
}

/** A report of both groups. */
export type LedgerReport = Readonly<Record<SessionGroup, GroupReport>>;

/** A warning for users, and where it came up. */
export interface WarningReport {
  readonly at: string;
  readonly session: string;
  readonly message: string;
}

/** What was saved, and how planned sessions do beside those that are left as they are. */
export interface Overview {
  /** Of the day that it is now, by UTC. */
  readonly today: Sums;
  /** Of all sessions that there were; of a gateway that keeps none, of those since its start. */
  readonly all: Sums;
  /** Of these, those that are planned and those that are left as they are, to compare with, each with how many there were. */
  readonly groups: Readonly<Record<SessionGroup, GroupSums>>;
  /** The newest since the start of the server, the newest first: sentences for people, and where they came up. */
  readonly warnings: readonly WarningReport[];
}

/** Both together. */
export function addSums(a: Partial<Sums>, b: Partial<Sums>): Sums {
  return sumsBy((name) => (a[name] ?? 0) + (b[name] ?? 0));
}

/** What days came to with more of a model on the day of a moment, in milliseconds since the epoch. */
export function addToDay(
  days: Days,
  more: Partial<Sums>,
  { atMs, model }: { readonly atMs: number; readonly model: string },
): Days {
  const key = `${dayOf(atMs)} ${model}`.trimEnd();
  return { ...days, [key]: withoutZeros(addSums(days[key] ?? {}, more)) };
}

/** Most of what is kept of a day is zero: lists of thousands of sessions read it all. */
function withoutZeros(sums: Sums): Partial<Sums> {
  return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0));
}

/** What both came to. */
export function addDays(days: Days, more: Days): Days {
  const sums: Record<string, Partial<Sums>> = { ...days };
  for (const [key, its] of Object.entries(more)) {
    const sum = withoutZeros(addSums(sums[key] ?? {}, its));
    if (key in sums || Object.keys(sum).length > 0) sums[key] = sum;
  }
  return sums;
}

/** What a name among {@linkcode Days} stands for; an empty model where none was noted. */
export function dayAndModel(key: string): { readonly day: string; readonly model: string } {
  return { day: key.slice(0, DAY_CHARS), model: key.slice(DAY_CHARS + 1) };
}

const DAY_CHARS = "2026-01-31".length;

/** What all days stand between, in the order of texts. */
export const FIRST_DAY = "0000-00-00";
export const LAST_DAY = "9999-99-99";

/** The day of a moment, by UTC. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** What tells sums from others beside kind, key and day, as a store keeps it. */
export interface SummedBy {
  readonly group: SessionGroup;
  /** Absent: of all models and agents. */
  readonly model?: string;
  readonly agent?: string | null;
}

/** What a store's sums are about. */
export function aboutOf({ about }: Pick<StoredSums, "about">): SummedBy {
  return JSON.parse(about);
}

function aboutText(about: SummedBy): string {
  return JSON.stringify(about);
}

function sumsBeyond(sums: Partial<Sums>, before: Partial<Sums> = {}): Sums {
  return addSums(sums, Object.fromEntries(Object.entries(before).map(([name, sum]) => [name, -sum])));
}

/** {@linkcode Sums} of one thing, or of several. */
export const sumsOf: {
  /** Nothing was called. */
  readonly nothing: Sums;
  /** What a call came to, its summary included, but for tokens that were kept out. */
  call(call: CallReport): Sums;
  /** What a ping came to: without Tare there would have been none. */
  ping(ping: PingEntry, rates: Rates): Partial<Sums>;
  /** What all of many came to. */
  all(some: readonly Partial<Sums>[]): Sums;
  /** What all days came to. */
  days(days: Days): Sums;
  /** What the day of a moment, in milliseconds since the epoch, came to in all of these. */
  today(all: readonly Days[], nowMs: number): Sums;
} = {
  nothing: NO_SUMS,
  call: (call) => sumsBy((_, of) => of?.(call) ?? 0),
  ping({ usage }, rates) {
    const { tokenUnits, usd = 0 } = callCost(usage, rates);
    return {
      ...{ pings: 1, tokenUnits, usd, pingTokenUnits: tokenUnits, pingUsd: usd },
      // With Tare there are pings; of what is left as it is there are none.
      ...{ projectedTokenUnits: tokenUnits, projectedUsd: usd },
    };
  },
  all(some) {
    return some.reduce<Sums>(addSums, NO_SUMS);
  },
  days(days) {
    return sumsOf.all(Object.values(days));
  },
  today(all, nowMs) {
    const day = dayOf(nowMs);
    const today = all.flatMap((days) =>
      Object.entries(days).flatMap(([key, sums]) => dayAndModel(key).day === day ? sums : [])
    );
    return sumsOf.all(today);
  },
};

/** What a group of sessions came to. */
interface Account {
  readonly sessions: number;
  readonly all: Sums;
  /** Of some days: that it is now is among them. */
  readonly days: Days;
}

/** Which sessions a store's accounts are of. */
export interface AccountsQuery extends Pick<StoredSums, "kind" | "by"> {
  /** The day that it is now is read by itself. In milliseconds since the epoch. */
  readonly nowMs: number;
}

/** What a session came to. */
export interface SessionSums {
  readonly group: SessionGroup;
  /** The program whose loop leads it; null where it is unknown. */
  readonly agent: string | null;
  readonly days: Days;
  /** What it had come to before. Default: nothing. */
  readonly before?: Days;
  /** Whether it counts as one more session. Default: no. */
  readonly isBegun?: boolean;
}

/** Sessions that are added to accounts. */
export interface AddedSessions {
  /** How many sessions more these are. */
  readonly sessions: number;
  readonly days: Days;
}

/** What sessions came to, by day and by group. */
export class Accounts {
  readonly #groups: Record<SessionGroup, Account> = {
    planned: { sessions: 0, all: NO_SUMS, days: {} },
    control: { sessions: 0, all: NO_SUMS, days: {} },
  };

  /**
   * Adds what sessions of a kind and key have come to that a store has kept, those that are gone too.
   *
   * @throws {StoreError}
   */
  async read(store: Pick<Store, "readSums">, { nowMs, ...which }: AccountsQuery): Promise<void> {
    const days = ["", dayOf(nowMs)];
    const read = await Promise.all(days.map((day) => store.readSums({ ...which, from: day, to: day })));
    for (const { day, sums, ...kept } of read.flat()) {
      const { group } = aboutOf(kept);
      const { [group]: { sessions, all, days } } = this.#groups;
      this.#groups[group] = day === ""
        ? { sessions: sessions + (sums["sessions"] ?? 0), all: addSums(all, sums), days }
        : { sessions, all, days: addDays(days, { [day]: sums }) };
    }
  }

  /**
   * The record by which a store adds what a session has come to since it had come to `before` to its sums: those of each day
   * by model and agent, and those of all days. None if that is nothing.
   */
  static records(
    sessionId: string,
    { group, agent, days, before = {}, isBegun = false }: SessionSums,
  ): readonly StoreRecord[] {
    const more = new Map<string, Sums>();
    let all = NO_SUMS;
    for (const [key, sums] of Object.entries(days)) {
      const { [key]: known } = before;
      if (known === sums) continue;
      const added = sumsBeyond(sums, known);
      const { day, model } = dayAndModel(key);
      const name = `${day} ${model}`;
      more.set(name, addSums(more.get(name) ?? {}, added));
      all = addSums(all, added);
    }
    const added = Array.from(more, ([name, sums]) => {
      const { day, model } = dayAndModel(name);
      return { day, about: aboutText({ group, model, agent }), sums: withoutZeros(sums) };
    });
    const whole = { ...withoutZeros(all), ...(isBegun && { sessions: 1 }) };
    const every = [...added, { day: "", about: aboutText({ group }), sums: whole }];
    const told = every.filter(({ sums }) => Object.keys(sums).length > 0);
    return told.length === 0 ? [] : [{ type: "sums", sessionId, added: told }];
  }

  /** What days came to beyond what they came to before. */
  static daysBeyond(days: Days, before: Days): Days {
    return Object.fromEntries(
      Object.entries(days).map(([day, sums]) => [day, sumsBeyond(sums, before[day])]),
    );
  }

  /** Adds what sessions of a group came to. */
  add(group: SessionGroup, { sessions, days }: AddedSessions): void {
    const before = this.#groups[group];
    this.#groups[group] = {
      sessions: before.sessions + sessions,
      all: addSums(before.all, sumsOf.days(days)),
      days: addDays(before.days, days),
    };
  }

  /** What was saved on the day of a moment and in all. */
  overview(nowMs: number, warnings: readonly WarningReport[]): Overview {
    const { planned, control } = this.#groups;
    const groups = {
      planned: { ...planned.all, sessions: planned.sessions },
      control: { ...control.all, sessions: control.sessions },
    };
    return {
      today: sumsOf.today([planned.days, control.days], nowMs),
      all: addSums(planned.all, control.all),
      groups,
      warnings,
    };
  }

  /** Both groups, with the averages that they are compared by. */
  report(): LedgerReport {
    return { planned: withAverages(this.#groups.planned), control: withAverages(this.#groups.control) };
  }
}

function withAverages({ sessions, all: sums }: Account): GroupReport {
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return {
    ...sums,
    sessions,
    tokenUnitsPerSession: each(sums.tokenUnits),
    withoutTokenUnitsPerSession: each(sums.withoutTokenUnits),
    projectedTokenUnitsPerSession: each(sums.projectedTokenUnits),
    callsPerSession: each(sums.calls),
    usdPerSession: sums.unpricedCalls > 0 ? null : each(sums.usd),
  };
}

/** How many warnings are remembered. */
export const MAX_WARNINGS = 100;

/** The newest warnings, one of each in a session. */
export class ToldWarnings {
  #told: readonly WarningReport[] = [];

  /** The newest first. */
  get list(): readonly WarningReport[] {
    return this.#told;
  }

  /** Takes another. */
  add(warning: WarningReport): void {
    const { session, message } = warning;
    const others = this.#told.filter((one) => one.session !== session || one.message !== message);
    this.#told = [warning, ...others].slice(0, MAX_WARNINGS);
  }
}
