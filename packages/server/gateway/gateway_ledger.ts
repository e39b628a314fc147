import type { Usage } from "@tare/messages";
import { type Profile, promptCost } from "@tare/planner";

/** What a group of sessions came to. Costs are in the price of one uncached input token. */
export interface GroupTotals {
  /** Sessions that began. */
  readonly sessions: number;
  /** Calls of the upstream that succeeded. */
  readonly calls: number;
  /** Calls that failed. */
  readonly errors: number;
  /** Answers to calls of the recall tool. */
  readonly recalls: number;
  /** Tokens of all prompts. */
  readonly prompt_tokens: number;
  /** Of these, served from the upstream's cache. */
  readonly cached_tokens: number;
  /** Tokens that models wrote. */
  readonly output_tokens: number;
  /** What the prompts cost. */
  readonly cost: number;
}

const NOTHING: GroupTotals = {
  sessions: 0,
  calls: 0,
  errors: 0,
  recalls: 0,
  prompt_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  cost: 0,
};

/** The groups that are compared. */
export type Group = "planned" | "control";

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
      prompt_tokens: totals.prompt_tokens + usage.promptTokens,
      cached_tokens: totals.cached_tokens + usage.cachedTokens,
      output_tokens: totals.output_tokens + usage.outputTokens,
      cost: totals.cost + promptCost(profile, usage),
    };
  }

  /** Both groups, with the averages that they are compared by. */
  report(): Record<
    Group,
    GroupTotals & { readonly cost_per_session: number; readonly calls_per_session: number }
  > {
    return { planned: withAverages(this.#totals.planned), control: withAverages(this.#totals.control) };
  }
}

function withAverages(totals: GroupTotals) {
  const { sessions, cost, calls } = totals;
  const each = (sum: number) => sessions === 0 ? 0 : sum / sessions;
  return { ...totals, cost_per_session: each(cost), calls_per_session: each(calls) };
}
