/**
 * Shared parts of Tare's packages. Not part of the public API: names and behavior may change in any release.
 *
 * @module
 */
export { type SchemaCheck, schemaChecker, type SchemaCheckerOptions } from "./arguments/schema_checker.ts";
export { addLedgers, BudgetSpent, EMPTY_LEDGER, pinOf, type ToolPin } from "./event.ts";
export { type ResumedTurn, systemClock, type TurnTime } from "./run_options.ts";
export { SentRequests } from "./run.ts";
