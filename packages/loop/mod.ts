/**
 * The agent loop over two ports (model, tool) and one hook (context).
 *
 * README.md shows it in use.
 *
 * @module
 */
export {
  addLedgers,
  type AnsweredCall,
  type AskedCall,
  BudgetSpent,
  EMPTY_LEDGER,
  type Journal,
  type Judge,
  type Judgement,
  type LoopEvent,
  ModelError,
  type TurnEnd,
  type TurnLedger,
} from "./event.ts";
export type { ProviderOptions } from "./provider.ts";
export {
  type ResumedTurn,
  run,
  type RunOptions,
  type TurnApprovals,
  type TurnCosts,
  type TurnLimits,
  type TurnResult,
  type TurnTime,
} from "./run.ts";
export { type Clock } from "./watchdog.ts";
