/**
 * When is a prompt worth rewriting? A {@linkcode PromptSession} decides before each call of an agent loop what of the
 * conversation the model still needs to see, weighs each rewrite against the provider's cache that it breaks, archives
 * what leaves, and books what each call cost.
 *
 * README.md shows it in use.
 *
 * @module
 */
export {
  findPrefixChange,
  PrefixCache,
  type PrefixChange,
  type PromptUnit,
  promptUnits,
  servedTokens,
} from "./cache/prefix.ts";
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
  readTooLong,
  type RoutedRequest,
  routeToCache,
  searchesTools,
  windowsOfModelList,
} from "./providers.ts";
export { type CompactionHabit, compactionOf } from "./agents.ts";
export { type SaidOutcome, SaidProof, type SaidRecord } from "./arrival/proof.ts";
export type { Summarise, SummaryRequest } from "./edits/make_summary.ts";
export { fittingPins, makePin, type NewPin, type Pin, withoutPin, withPin } from "./edits/pin.ts";
export {
  callCost,
  callCostParts,
  promptCost,
  type Rates,
  type RequestMade,
  withPrefixChange,
} from "./ledger/ledger.ts";
export { type Idle, type Ping, pingClock } from "./clock/clock.ts";
export { observeUpgrade, UNTRIED, type UpgradeEvidence, type UpgradeTrial } from "./clock/upgrade.ts";
export { type History, isSummary } from "./edits/view.ts";
export { type LedgerEntry, type PingEntry, type PingSent } from "./ledger/entry.ts";
export type { Quote } from "./rule/quote.ts";
export { KEEP_WANTED, type Retention } from "./retention/retention.ts";
export { WINDOW_SHARE, worthDeferring } from "./rule/decide.ts";
export {
  type ForkableSession,
  type Mechanisms,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  PromptTooLong,
  type SavedTokens,
  type SessionView,
} from "./prompt_session.ts";
export { type PlannerSession, plannerSession, slicer } from "./session.ts";
