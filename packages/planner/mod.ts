/**
 * When is a prompt worth rewriting? A {@linkcode PromptSession} decides before each call of an agent loop what of the
 * conversation the model still needs to see, weighs each rewrite against the provider's cache that it breaks, archives
 * what leaves, and books what each call cost.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { PrefixCache, type PromptUnit, promptUnits } from "./cache/prefix_cache.ts";
export { EXAMPLE_MODELS, isPrice, listPrice, type Price, PRICES_DATE } from "./data/prices.ts";
export { readProfileFile } from "./data/profile_file.ts";
export {
  chooseProfile,
  DEFAULT_PROVIDER,
  LOCAL_PROFILE,
  MESSAGES_PROVIDER,
  type Profile,
  profileForTtl,
  profileNamed,
  profileOfModelList,
  PROFILES,
  providerOf,
  recogniseProfile,
  type Warmth,
} from "./data/providers.ts";
export { isSummary, type Summarise, type Summary, type SummaryRequest } from "./edits/make_summary.ts";
export { fittingPins, makePin, type NewPin, type Pin, type Wish, withoutPin, withPin } from "./edits/pin.ts";
export type { Conversation } from "./edits/view.ts";
export {
  callCost,
  type LedgerEntry,
  promptCost,
  type PromptShares,
  type Rates,
  type UncachedCause,
} from "./ledger/ledger.ts";
export { BY_AGE, KEEP_WANTED, type Retention, type Standing } from "./retention/find_removals.ts";
export { type Decision, WINDOW_SHARE } from "./rule/decide.ts";
export type { Quote } from "./rule/quote.ts";
export { worthDeferring } from "./rule/worth_deferring.ts";
export {
  type DeferredTools,
  type ForkableSession,
  type Mechanisms,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type SessionView,
  slicer,
  type Triggers,
} from "./prompt_session.ts";
export { type PlannerSession, plannerSession } from "./session.ts";
