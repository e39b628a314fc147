/**
 * What a prompt session is made of, for those who lead conversations in a way of their own or look on: what a provider's
 * cache holds of a prompt, what it costs, how requests find it again, and what pings have shown. An entry
 * point of its own, so that who wants a session alone doesn't carry it.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { promptCost } from "@tare/planner/parts";
 *
 * const sent = { promptTokens: 10_000, cachedTokens: 9_000 };
 * assertEquals(promptCost(profileNamed("openai"), sent), 1_900);
 * ```
 *
 * @module
 */
export { compactionOf } from "./agents.ts";
export { PrefixCache, type PromptUnit, servedTokens } from "./cache/prefix.ts";
export { pingClock } from "./clock/clock.ts";
export { isSummary } from "./edits/view.ts";
export {
  callCost,
  callCostParts,
  mostOfCall,
  promptCost,
  type Rates,
  type RequestMade,
} from "./ledger/ledger.ts";
export {
  howToAsk,
  profileForTtl,
  providerOf,
  readModelList,
  routeToCache,
  searchesTools,
} from "./providers.ts";
export { WINDOW_SHARE, worthDeferring } from "./rule/decide.ts";
