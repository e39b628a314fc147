import type { RunOptions, TurnLedger } from "@tare/loop";
import { callCost } from "@tare/planner";
import type { TurnAccount } from "../helpers/turn_account.ts";
import { overBudget } from "./budget.ts";
import type { RunTurnOptions } from "./run_turn.ts";
import { ratesOf, type SessionEnvironment, type TurnRequest } from "../sessions/session_options.ts";
import type { SessionSettings } from "../sessions/session_settings.ts";

/** A turn that is asked for, as far as it matters for how it is played. */
export type AskedTurn =
  & Omit<TurnRequest, "results" | "keep" | "giveBack">
  & Pick<RunOptions, "signal">;

/** What a turn is played with that doesn't change while it runs. */
export type FixedOptions =
  & Omit<RunTurnOptions, "prompt" | "history" | "tools" | "countTokens" | "steering" | "commit">
  & Required<Pick<RunTurnOptions, "clientTools" | "overBudget">>;

/**
 * What a turn is played with, by what was asked for, the session's settings and what it has cost so far.
 *
 * @throws what the model's port throws for a model that can't be had.
 */
export function turnOptions(
  { input, signal, budget: turn = {}, maxOutputTokens = Infinity, clientTools = [], settings, payer }:
    AskedTurn,
  { environment, settings: { model: modelName, budget: session }, ledger, account }: {
    readonly environment: SessionEnvironment;
    readonly settings: SessionSettings;
    readonly ledger: TurnLedger;
    readonly account: TurnAccount;
  },
): FixedOptions {
  const { model, limits = {}, notice, now = Date.now } = environment;
  const most = Math.min(maxOutputTokens, limits.maxOutputTokens ?? Infinity);
  const rates = ratesOf(environment, modelName);
  const overOwn = overBudget({ turn, session }, { before: ledger, model: modelName, rates });
  return {
    ...limits,
    ...(most < Infinity && { maxOutputTokens: most }),
    ...(input !== undefined && { input }),
    ...(signal && { signal }),
    ...(settings && { settings }),
    clientTools,
    model: model(modelName),
    modelName,
    notice,
    now,
    costOf: (usage) => callCost(usage, rates),
    overBudget: (ledger) => overOwn(ledger) ?? payer?.overBudget(),
    spent(own) {
      const sum = account.spent(own);
      payer?.note(sum);
      return sum;
    },
  };
}
