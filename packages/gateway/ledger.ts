import type { JsonSchema, Usage } from "@tare/messages";
import {
  addSums,
  closedSchema as closed,
  NO_SUMS,
  type Overview,
  type Profile,
  promptCost,
  type Sums,
  type ToldWarning,
} from "@tare/planner";

/** What calls came to. Costs are in the price of one uncached input token. */
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
  readonly cost: number;
  /** Of this, what the prompts of compactions cost. */
  readonly compactionCost: number;
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
  cost: 0,
  compactionCost: 0,
};

/** The groups that are compared. */
export type Group = "planned" | "control";

/** Both groups, with the averages that they are compared by. */
export type LedgerReport = Readonly<
  Record<Group, GroupTotals & { readonly costPerSession: number; readonly callsPerSession: number }>
>;

/** JSON Schemas of the fields of {@linkcode Totals}. */
export const TOTALS: Readonly<Record<string, JsonSchema>> = numbers(Object.keys(NO_CALLS));

const GROUP: JsonSchema = closed(
  "GatewayLedgerGroup",
  numbers(["sessions", ...Object.keys(NO_CALLS), "costPerSession", "callsPerSession"]),
);

/** JSON Schema of a {@linkcode LedgerReport}. */
export const LEDGER_REPORT: JsonSchema = closed("GatewayLedger", { planned: GROUP, control: GROUP });

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
export function callTotals(
  usage: Usage,
  profile: Profile,
): Pick<Totals, "calls" | "promptTokens" | "cachedTokens" | "outputTokens" | "cost"> {
  const { promptTokens, cachedTokens, outputTokens } = usage;
  return { calls: 1, promptTokens, cachedTokens, outputTokens, cost: promptCost(profile, usage) };
}

function numbers(names: readonly string[]): Record<string, JsonSchema> {
  return Object.fromEntries(names.map((name) => [name, { type: "number" }]));
}

/** The day of a moment, by UTC. */
function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function add(totals: Totals, more: Partial<Totals>): Totals {
  const sum: { -readonly [Name in keyof Totals]: number } = { ...totals };
  for (const name of Object.keys(NO_CALLS) as (keyof Totals)[]) sum[name] += more[name] ?? 0;
  return sum;
}

function withAverages(totals: GroupTotals) {
  const { sessions, cost, calls } = totals;
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return { ...totals, costPerSession: each(cost), callsPerSession: each(calls) };
}
