/**
 * Components of a prompt session, for callers with their own loop or for analysis: cache model, costs, cache
 * routing and keep-alive. A separate entry point, so that programs with a session alone don't load them.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { promptCost } from "@tare/planner/internal/parts";
 *
 * const sent = { promptTokens: 10_000, cachedTokens: 9_000 };
 * assertEquals(promptCost(profileNamed("openai"), sent), 1_900);
 * ```
 *
 * @module
 */
export {
  type HeldPrompt,
  HeldPrompts,
  PrefixCache,
  type PrefixCacheOptions,
  type PromptUnit,
  type StoredPrompt,
  type UnitsRequest,
} from "./cache/prefix.ts";
export { type IdleClock, keepAliveClock } from "./clock/clock.ts";
export { type ClientChange, findClientChange, withClientChange } from "./ledger/client_change.ts";
export {
  budgetUsd,
  callCost,
  callCostParts,
  comparedUsd,
  type CostParts,
  type Rates,
} from "./ledger/call_cost.ts";
export { promptCost } from "./ledger/ledger.ts";
