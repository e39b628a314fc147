import { addLedgers, type TurnLedger } from "@tare/loop";
import { type Profile, promptCost } from "@tare/planner";
import { type Static, Type } from "typebox";
import { closed } from "../http/schema.ts";

/** What a turn or a session may cost. Default of each: no limit. */
export const BUDGET = closed({
  maxSteps: Type.Optional(Type.Integer({ minimum: 1, description: "Most model calls." })),
  maxTokens: Type.Optional(
    Type.Integer({ minimum: 1, description: "Most tokens, of prompts and replies together." }),
  ),
  maxCost: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: "Highest cost of the prompts, in the price of one uncached input token.",
    }),
  ),
});
/** What a turn or a session may cost. */
export type Budget = Readonly<Static<typeof BUDGET>>;

/** What a turn's budgets are measured by. */
export interface BudgetOptions {
  /** What this turn may cost. */
  readonly turn?: Budget;
  /** What the session's turns may cost together. */
  readonly session?: Budget;
  /** What the session's earlier turns cost. */
  readonly before: TurnLedger;
  readonly profile: Profile;
}

/** Makes a function that says, from what a turn cost so far, which budget is used up; nothing while there is room. */
export function overBudget(
  { turn = {}, session = {}, before, profile }: BudgetOptions,
): (ledger: TurnLedger) => string | undefined {
  return (ledger) =>
    usedUp("turn", turn, ledger, profile) ?? usedUp("session", session, addLedgers(before, ledger), profile);
}

function usedUp(what: string, budget: Budget, ledger: TurnLedger, profile: Profile): string | undefined {
  const spent = {
    maxSteps: ledger.calls,
    maxTokens: ledger.promptTokens + ledger.outputTokens,
    maxCost: promptCost(profile, ledger),
  };
  for (const name of ["maxSteps", "maxTokens", "maxCost"] as const) {
    const limit = budget[name];
    if (limit === undefined || spent[name] < limit) continue;
    return `The ${what} has used up its budget: ${name} is ${limit}, and it has used ${
      Math.round(spent[name])
    }.`;
  }
  return undefined;
}
