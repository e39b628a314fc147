/**
 * The agent loop over two ports (model, tool) and one hook (context).
 *
 * README.md shows it in use.
 *
 * @module
 */
export type { AnsweredCall, AskedCall, Judge } from "./approval.ts";
export type { LoopEvent, TurnEnd, TurnEndReason } from "./event.ts";
export { addLedgers, EMPTY_LEDGER, type TurnLedger } from "./ledger.ts";
export { ModelError, type ModelErrorCode } from "./model_error.ts";
export type { ProviderOptions } from "./provider/provider_access.ts";
export { run, type TurnResult } from "./run.ts";
export type { RunOptions } from "./run_options.ts";
export { type Clock, systemClock } from "./watchdog.ts";
