import type { RunOptions, TurnLedger } from "@tare/loop";
import type { Model, Tool } from "@tare/messages";
import { callCost } from "@tare/planner";
import { allowingAsked, judgeBy } from "../approvals/judge.ts";
import type { Opening } from "../approvals/approvals.ts";
import { CANNOT_ASK } from "../approvals/questions.ts";
import type { Helpers } from "../helpers/delegate_tool.ts";
import { TurnAccount } from "../helpers/turn_account.ts";
import { overBudget } from "./budget.ts";
import { type PlayedTurn, runTurn, type RunTurnOptions } from "./run_turn.ts";
import type { TakenTools } from "./session_tools.ts";
import { tracedTurn } from "./traced_turn.ts";
import {
  asked,
  ratesOf,
  type SessionEnvironment,
  type SessionInfo,
  type TurnRequest,
} from "../sessions/session_options.ts";
import type { SessionSettings } from "../sessions/session_settings.ts";

/** A turn that is asked for, as far as it matters for how it is played. */
export type AskedTurn =
  & Omit<TurnRequest, "results" | "budget" | "keep" | "giveBack" | "told">
  & Pick<RunOptions, "signal">;

/** What a turn is played in. */
export interface Stage
  extends Required<Pick<RunTurnOptions, "takeTools" | "countTokens" | "steering" | "commit">> {
  readonly environment: SessionEnvironment;
  /** Its history is read when the turn is played. */
  readonly session: Required<Pick<RunTurnOptions, "prompt" | "history">> & {
    readonly id: string;
    readonly parent: SessionInfo["parent"];
    readonly settings: SessionSettings;
    /** What it has cost so far. */
    readonly ledger: TurnLedger;
    readonly helpers: Pick<Helpers, "begin">;
  };
  /** What the turn begins with. */
  readonly opening: Opening;
  /**
   * Called before each model call and each tool: throws if the turn may be somebody else's by now. Default: it can't be.
   */
  readonly assertOwn?: (() => void) | undefined;
}

/** Makes the function that plays a turn. @throws what the model's port throws for a model that can't be had. */
export function turnPlayer(request: AskedTurn, stage: Stage): () => Promise<PlayedTurn> {
  const { session, environment, opening: _opening, assertOwn, ...more } = stage;
  const account = new TurnAccount();
  const given = turnOptions(request, { ...stage, account });
  const options = assertOwn ? { ...given, model: ownModel(given.model, assertOwn) } : given;
  let taken: readonly Tool[] = [];
  session.helpers.begin({ ...options, account, tools: () => taken });
  const takeTools = async (signal?: AbortSignal): Promise<TakenTools> => {
    const { tools } = request;
    const found = tools ? { tools, warnings: [] } : await stage.takeTools(signal);
    taken = assertOwn ? found.tools.map((tool) => ownTool(tool, assertOwn)) : found.tools;
    return { ...found, tools: taken };
  };
  return () => {
    const { prompt, history } = session;
    const all = { ...options, ...more, takeTools, prompt, history };
    const { telemetry } = environment;
    if (!telemetry?.isOn) return runTurn(all);
    const { id: conversation, parent, settings: { model } } = session;
    const agent = parent ? "helper" : "tare";
    return tracedTurn(all, runTurn, { telemetry, agent, conversation, ...asked(environment, model) });
  };
}

/** A model that is asked only as long as this doesn't throw. */
function ownModel(model: Model, assertOwn: () => void): Model {
  return (request) => {
    assertOwn();
    return model({ ...request, confirm: assertOwn });
  };
}

/** A tool that runs only as long as this doesn't throw. */
function ownTool(tool: Tool, assertOwn: () => void): Tool {
  return {
    ...tool,
    run(args, context) {
      assertOwn();
      return tool.run(args, { ...context, confirm: assertOwn });
    },
  };
}

/**
 * What a turn is played with, by what was asked for, the session's settings and what it has cost so far.
 *
 * @throws what the model's port throws for a model that can't be had.
 */
function turnOptions(
  { input, signal, unattended, payer, ...asked }: AskedTurn,
  { environment, session: { settings: own, ledger }, opening, account }: Stage & {
    readonly account: TurnAccount;
  },
):
  & Omit<RunTurnOptions, keyof Stage | "prompt" | "history">
  & Required<Pick<RunTurnOptions, "clientTools" | "overBudget">> {
  const { model, limits = {}, notice, now = Date.now, clock, approvals = {} } = environment;
  const { maxOutputTokens = Infinity, clientTools = [], settings } = asked;
  const { model: modelName, budget: session } = own;
  const { answered, always, budget: turn = {}, spent } = opening;
  const { rules = [], workspace = "/" } = approvals;
  const mayAll = unattended === "by_setting" && approvals.unattended === "allow";
  const judge = judgeBy({ lists: [rules, own.approvalRules], always, workspace });
  const most = Math.min(maxOutputTokens, limits.maxOutputTokens ?? Infinity);
  const rates = ratesOf(environment, modelName);
  const overOwn = overBudget({ turn, session }, { before: ledger, spent, model: modelName, rates });
  return {
    ...limits,
    ...(most < Infinity && { maxOutputTokens: most }),
    ...(input !== undefined && { input }),
    ...(signal && { signal }),
    ...(settings && { settings }),
    clientTools,
    answered,
    judge: payer?.judge ?? (mayAll ? allowingAsked(judge) : judge),
    ...(unattended && { cannotAsk: CANNOT_ASK }),
    model: model(modelName),
    modelName,
    notice,
    now,
    ...(clock && { clock }),
    costOf: (usage) => callCost(usage, rates),
    overBudget: (ledger) => overOwn(ledger) ?? payer?.overBudget(),
    spent(own) {
      const sum = account.spent(own);
      payer?.note(sum);
      return sum;
    },
  };
}
