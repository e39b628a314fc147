/**
 * The agent loop over two ports (model, tool) and one hook (context).
 *
 * README.md shows it in use.
 *
 * @module
 */
export * from "./approval.ts";
export * from "./event.ts";
export * from "./ledger.ts";
export * from "./model_error.ts";
export type { ProviderOptions } from "./provider/provider_access.ts";
export * from "./run.ts";
export type { RunOptions } from "./run_options.ts";
export { type Clock, systemClock } from "./watchdog.ts";
