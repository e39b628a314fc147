/**
 * When is a prompt worth rewriting? A {@linkcode PromptSession} decides before each call of an agent loop what of the
 * conversation the model still needs to see, weighs each rewrite against the provider's cache that it breaks, archives
 * what leaves, and books what each call cost.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { servedTokens } from "./cache/predict.ts";
export { type ClientRequest, findPrefixChange, type PrefixChange } from "./cache/prefix_change.ts";
export { PrefixCache, type PromptUnit, promptUnits } from "./cache/prefix_cache.ts";
export {
  chooseProfile,
  DEFAULT_PROVIDER,
  EXAMPLE_MODELS,
  isPrice,
  listPrice,
  listWindow,
  LOCAL_PROFILE,
  MESSAGES_PROVIDER,
  MODELS_DATE,
  type Price,
  type Profile,
  profileForTtl,
  profileNamed,
  profileOfModelList,
  PROFILES,
  providerOf,
  readProfileFile,
  readTooLong,
  type RoutedRequest,
  routeToCache,
  searchesTools,
  windowsOfModelList,
} from "./providers.ts";
export { compactionOf } from "./agents.ts";
export { type Came, type SaidCounts, type SaidOutcome, SaidProof, type SaidRecord } from "./arrival/proof.ts";
export { isSummary, type Summarise, type SummaryRequest } from "./edits/make_summary.ts";
export { fittingPins, makePin, type NewPin, type Pin, withoutPin, withPin } from "./edits/pin.ts";
export {
  type AfterPing,
  afterPing,
  type AfterRequest,
  afterRequest,
  type ClockOptions,
  type ClockState,
  type Idle,
  NEW_CLOCK,
  nextPing,
  type Ping,
  type PingMade,
  type RequestMade,
} from "./clock/clock.ts";
export { observeUpgrade, UNTRIED, type UpgradeEvidence, type UpgradeTrial } from "./clock/upgrade.ts";
export type { History } from "./edits/view.ts";
export {
  callCost,
  callCostParts,
  type CompactionHabit,
  type LedgerEntry,
  type PingEntry,
  type PingSent,
  promptCost,
  type Rates,
  withPrefixChange,
} from "./ledger/ledger.ts";
export type { Quote } from "./rule/quote.ts";
export { KEEP_WANTED, type Retention } from "./retention/find_removals.ts";
export { WINDOW_SHARE, worthDeferring } from "./rule/decide.ts";
export {
  type ForkableSession,
  type Mechanisms,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  PromptTooLong,
  type RejectedPrompt,
  type SavedTokens,
  type SessionView,
  slicer,
} from "./prompt_session.ts";
export { type PlannerSession, plannerSession } from "./session.ts";
