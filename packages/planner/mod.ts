/**
 * When is a prompt worth rewriting? Edits and the view that they give, provider cache profiles, a model of their
 * caches, and the planner that weighs a rewrite against the cache that it breaks.
 *
 * @module
 */
export { WINDOW_SHARE } from "./decide.ts";
export * from "./edit.ts";
export { type Removal, type RemovalOptions, type Way } from "./find_removals.ts";
export {
  entryMoney,
  type LedgerEntry,
  type PromptShares,
  type TokenPrices,
  type UncachedCause,
} from "./ledger.ts";
export * from "./plan.ts";
export * from "./planner.ts";
export * from "./planner_state.ts";
export * from "./prefix_cache.ts";
export * from "./price.ts";
export * from "./profile.ts";
export { promptUnits } from "./prompt_units.ts";
export * from "./retention.ts";
export { type Conversation, view } from "./view.ts";
export * from "./warmth.ts";
export { type Cut } from "./weigh_cuts.ts";
