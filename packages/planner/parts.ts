/**
 * What a prompt session is made of, for those who lead conversations in a way of their own or look on: what a provider's
 * cache holds of a prompt, what it costs, how requests find it again, and what pings have shown. An entry
 * point of its own, so that who wants a session alone doesn't carry it.
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
export { type IdleClock, pingClock } from "./clock/clock.ts";
export { callCost, callCostParts, type CostParts, promptCost, type Rates } from "./ledger/ledger.ts";
