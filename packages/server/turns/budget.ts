import { addLedgers, EMPTY_LEDGER, type TurnLedger } from "@tare/loop";
import { callCost, PRICES_DATE, type Rates } from "@tare/planner";
import { type Static, Type } from "typebox";
import { HttpError } from "../http/http_error.ts";
import { closed } from "../http/schema.ts";

/** What a turn or a session may cost. Default of each: no limit. */
export const BUDGET = closed({
  maxSteps: Type.Optional(Type.Integer({ minimum: 1, description: "Most model calls." })),
  maxTokens: Type.Optional(
    Type.Integer({ minimum: 1, description: "Most tokens, of prompts and replies together." }),
  ),
  maxUsd: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description:
        `Most US dollars, of prompts and replies together, by the list prices of ${PRICES_DATE} or one's own.`,
    }),
  ),
  maxTokenUnits: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      description: "Highest cost of the prompts in token units: the price of one uncached input token is 1.",
    }),
  ),
});
/** What a turn or a session may cost. */
export type Budget = Readonly<Static<typeof BUDGET>>;

/** The budgets that hold for a turn. */
export interface Budgets {
  /** What this turn may cost. */
  readonly turn?: Budget;
  /** What the session's turns may cost together. */
  readonly session?: Budget;
}

/** What budgets are measured by. */
export interface Measure {
  readonly rates: Rates;
  /** Name of the model. */
  readonly model: string;
}

/** @throws {HttpError} 400 for a budget in dollars where the model's price isn't known. */
export function checkBudgets({ turn, session }: Budgets, { rates, model }: Measure): void {
  if (rates.price || (turn?.maxUsd ?? session?.maxUsd) === undefined) return;
  throw new HttpError(
    400,
    "invalid_request",
    `Cannot hold the budget maxUsd: the price of model ${
      JSON.stringify(model)
    } isn't known; start the server with ` +
      "TARE_PRICE=input=3,output=15 (US dollars for a million tokens) or a price in TARE_PROFILE_FILE, or use " +
      "maxTokens or maxTokenUnits.",
  );
}

/**
 * Makes a function that says, from what a turn cost so far, which budget is used up; nothing while there is room. `before`
 * is what the session's earlier turns cost, `spent` what this one did before it went on. Default: nothing.
 *
 * @throws {HttpError} as {@linkcode checkBudgets} does.
 */
export function overBudget(
  budgets: Budgets,
  { before, spent = EMPTY_LEDGER, ...measure }: Measure & {
    readonly before: TurnLedger;
    readonly spent?: TurnLedger | undefined;
  },
): (ledger: TurnLedger) => string | undefined {
  checkBudgets(budgets, measure);
  const { turn = {}, session = {} } = budgets;
  const { rates } = measure;
  return (ledger) =>
    usedUp("turn", turn, addLedgers(spent, ledger), rates) ??
      usedUp("session", session, addLedgers(before, ledger), rates);
}

function usedUp(what: string, budget: Budget, ledger: TurnLedger, rates: Rates): string | undefined {
  // What the calls cost isn't known of turns from before it was noted.
  const all = callCost(ledger, rates);
  const spent = {
    maxSteps: ledger.calls,
    maxTokens: ledger.promptTokens + ledger.outputTokens,
    maxUsd: ledger.usd ?? all.usd ?? 0,
    maxTokenUnits: ledger.tokenUnits ?? all.tokenUnits,
  };
  for (const name of ["maxSteps", "maxTokens", "maxUsd", "maxTokenUnits"] as const) {
    const limit = budget[name];
    if (limit === undefined || spent[name] < limit) continue;
    const used = name === "maxUsd" ? Number(spent.maxUsd.toPrecision(4)) : Math.round(spent[name]);
    return `The ${what} has used up its budget: ${name} is ${limit}, and it has used ${used}.`;
  }
  return undefined;
}
