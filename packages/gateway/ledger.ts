import type { JsonSchema, Usage } from "@tare/messages";
import { type Profile, promptCost } from "@tare/planner";

/** What a group of sessions came to. Costs are in the price of one uncached input token. */
export interface GroupTotals {
  readonly sessions: number;
  /** Calls of the upstream that succeeded. */
  readonly calls: number;
  readonly errors: number;
  /** Answers to calls of the recall tool. */
  readonly recalls: number;
  /** Tokens of all prompts. */
  readonly promptTokens: number;
  /** Of these, served from the upstream's cache. */
  readonly cachedTokens: number;
  /** Tokens that models wrote. */
  readonly outputTokens: number;
  /** What the prompts cost. */
  readonly cost: number;
}

const NOTHING: GroupTotals = {
  sessions: 0,
  calls: 0,
  errors: 0,
  recalls: 0,
  promptTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  cost: 0,
};

/** The groups that are compared. */
export type Group = "planned" | "control";

/** Both groups, with the averages that they are compared by. */
export type LedgerReport = Readonly<
  Record<Group, GroupTotals & { readonly costPerSession: number; readonly callsPerSession: number }>
>;

const FIGURES = [...Object.keys(NOTHING), "costPerSession", "callsPerSession"];
const GROUP: JsonSchema = {
  title: "GatewayLedgerGroup",
  type: "object",
  properties: Object.fromEntries(FIGURES.map((name) => [name, { type: "number" }])),
  required: FIGURES,
  additionalProperties: false,
};

/** JSON Schema of a {@linkcode LedgerReport}. */
export const LEDGER_REPORT: JsonSchema = {
  title: "GatewayLedger",
  type: "object",
  properties: { planned: GROUP, control: GROUP },
  required: ["planned", "control"],
  additionalProperties: false,
};

/** Adds up what sessions cost, apart for those that are planned and those that are left as they are. */
export class GatewayLedger {
  readonly #totals = { planned: NOTHING, control: NOTHING };

  /** Counts something that happened. */
  count(group: Group, what: "sessions" | "errors" | "recalls", number = 1): void {
    const totals = this.#totals[group];
    this.#totals[group] = { ...totals, [what]: totals[what] + number };
  }

  /** Counts a call that succeeded. */
  call(group: Group, { usage, profile }: { readonly usage: Usage; readonly profile: Profile }): void {
    const totals = this.#totals[group];
    this.#totals[group] = {
      ...totals,
      calls: totals.calls + 1,
      promptTokens: totals.promptTokens + usage.promptTokens,
      cachedTokens: totals.cachedTokens + usage.cachedTokens,
      outputTokens: totals.outputTokens + usage.outputTokens,
      cost: totals.cost + promptCost(profile, usage),
    };
  }

  /** Both groups, with the averages that they are compared by. */
  report(): LedgerReport {
    return { planned: withAverages(this.#totals.planned), control: withAverages(this.#totals.control) };
  }
}

function withAverages(totals: GroupTotals) {
  const { sessions, cost, calls } = totals;
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return { ...totals, costPerSession: each(cost), callsPerSession: each(calls) };
}
