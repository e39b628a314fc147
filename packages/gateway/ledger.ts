import type { Cost, Usage } from "@tare/messages";
import { callCost, type Rates } from "@tare/planner";
import { addSums, NO_SUMS, type Overview, type Sums, type ToldWarning } from "@tare/conversation/report";

/**
 * What calls came to: prompts in token units, of which the price of one uncached input token is 1, and prompts and replies
 * in US dollars, as far as the models' prices are known.
 */
export interface Totals {
  /** Calls of the upstream that succeeded. */
  readonly calls: number;
  readonly errors: number;
  /** Answers to calls of the recall tool. */
  readonly recalls: number;
  /** Calls by which clients had a conversation summed up, to go on from the summary. */
  readonly compactions: number;
  /** Tokens of all prompts. */
  readonly promptTokens: number;
  /** Of these, served from the upstream's cache. */
  readonly cachedTokens: number;
  /** Tokens that models wrote. */
  readonly outputTokens: number;
  /** What the prompts cost. */
  readonly tokenUnits: number;
  /** Of this, what the prompts of compactions cost. */
  readonly compactionTokenUnits: number;
  /** Calls whose price isn't known, so that no dollars are counted for them. */
  readonly unpricedCalls: number;
  /** Dollars that the calls cost whose price is known; absent where none is. */
  readonly usd?: number;
  /** Of these, what compactions cost. */
  readonly compactionUsd?: number;
}

/** What a group of sessions came to. */
export interface GroupTotals extends Totals {
  readonly sessions: number;
}

/** Nothing was called yet. */
export const NO_CALLS: Totals = {
  calls: 0,
  errors: 0,
  recalls: 0,
  compactions: 0,
  promptTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  tokenUnits: 0,
  compactionTokenUnits: 0,
  unpricedCalls: 0,
};

/** The groups that are compared. */
export type Group = "planned" | "control";

/** What both groups came to, with the averages that they are compared by. */
export type LedgerReport = Readonly<Record<Group, GroupReport>>;

/** What a group came to, with the averages that it is compared by. */
export interface GroupReport extends GroupTotals {
  readonly tokenUnitsPerSession: number;
  readonly callsPerSession: number;
  /** Dollars for each session; absent where the price of a call isn't known. */
  readonly usdPerSession?: number;
}

/** What isn't known of every model. */
const DOLLARS = ["usd", "compactionUsd"] as const;

/** Who calls are booked for. */
export interface Account {
  /** Whether its group is `control`. */
  readonly control: boolean;
  totals: Totals;
}

/** Adds up what sessions cost, each by itself, and apart for those that are planned and those that are left as they are. */
export class GatewayLedger {
  readonly #groups: Record<Group, GroupTotals> = {
    planned: { sessions: 0, ...NO_CALLS },
    control: { sessions: 0, ...NO_CALLS },
  };
  readonly #sums: Record<Group, Sums> = { planned: NO_SUMS, control: NO_SUMS };
  #today = { day: "", sums: NO_SUMS };

  /** A session has begun. */
  begin({ control }: Pick<Account, "control">): void {
    const group = control ? "control" : "planned";
    this.#groups[group] = { ...this.#groups[group], sessions: this.#groups[group].sessions + 1 };
  }

  /** Adds to what an account came to. */
  book(account: Account, more: Partial<Totals>): void {
    account.totals = add(account.totals, more);
    const group = account.control ? "control" : "planned";
    this.#groups[group] = { ...this.#groups[group], ...add(this.#groups[group], more) };
  }

  /** Adds a call to what was saved. */
  bookSums({ control }: Pick<Account, "control">, more: Sums, atMs: number): void {
    const group = control ? "control" : "planned";
    this.#sums[group] = addSums(this.#sums[group], more);
    this.#today = { day: dayOf(atMs), sums: addSums(this.#sumsOfDay(atMs), more) };
  }

  /** What was saved, today and in all, and how the groups do. */
  overview(nowMs: number, warnings: readonly ToldWarning[]): Overview {
    const { planned, control } = this.#sums;
    return {
      today: this.#sumsOfDay(nowMs),
      all: addSums(planned, control),
      groups: {
        planned: { ...planned, sessions: this.#groups.planned.sessions },
        control: { ...control, sessions: this.#groups.control.sessions },
      },
      warnings,
    };
  }

  #sumsOfDay(ms: number): Sums {
    return this.#today.day === dayOf(ms) ? this.#today.sums : NO_SUMS;
  }

  /** Both groups, with the averages that they are compared by. */
  report(): LedgerReport {
    return { planned: withAverages(this.#groups.planned), control: withAverages(this.#groups.control) };
  }
}

/** What a call came to that succeeded. */
export function callTotals(usage: Usage, rates: Rates): CallTotals {
  const { promptTokens, cachedTokens, outputTokens } = usage;
  const unpricedCalls = rates.price ? 0 : 1;
  return { calls: 1, promptTokens, cachedTokens, outputTokens, ...callCost(usage, rates), unpricedCalls };
}

/** What one call came to. */
export type CallTotals =
  & Pick<Totals, "calls" | "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits" | "unpricedCalls">
  & Cost;

/** The day of a moment, by UTC. */
function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function add(totals: Totals, more: Partial<Totals>): Totals {
  const sum: { -readonly [Name in keyof Totals]: number } = { ...totals };
  for (const name of Object.keys(NO_CALLS) as (keyof typeof sum)[]) sum[name]! += more[name] ?? 0;
  for (const name of DOLLARS) {
    if (more[name] !== undefined) sum[name] = (sum[name] ?? 0) + more[name];
  }
  return sum;
}

function withAverages(totals: GroupTotals): GroupReport {
  const { sessions, tokenUnits, calls, usd, unpricedCalls } = totals;
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return {
    ...totals,
    tokenUnitsPerSession: each(tokenUnits),
    callsPerSession: each(calls),
    ...(usd !== undefined && unpricedCalls === 0 && { usdPerSession: each(usd) }),
  };
}
