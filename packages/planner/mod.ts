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
export type {
  CompactEdit,
  DropEdit,
  Edit,
  ElideEdit,
  KeepEdit,
  ShortenEdit,
  SummariseEdit,
} from "./edits/edit.ts";
export { isSummary } from "./edits/make_summary.ts";
export { fittingPins, makePin, type NewPin, type Pin, type Wish, withoutPin, withPin } from "./edits/pin.ts";
export { type Conversation, view } from "./edits/view.ts";
export type { LedgerEntry, PromptShares, UncachedCause } from "./ledger/ledger.ts";
export { callCost, promptCost, type Rates } from "./ledger/price.ts";
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
export { EXAMPLE_MODELS, isPrice, listPrice, type Price, PRICES, PRICES_DATE } from "./prices.ts";
export { readProfileFile } from "./profile_file.ts";
export {
  chooseProfile,
  DEFAULT_PROVIDER,
  LOCAL_PROFILE,
  MESSAGES_PROVIDER,
  type Profile,
  profileForTtl,
  type ProfileHints,
  profileNamed,
  profileOfModelList,
  PROFILES,
  providerOf,
  recogniseProfile,
  type Warmth,
} from "./providers.ts";
export { BY_AGE, KEEP_WANTED, type Retention, type Standing } from "./retention/retention.ts";
export { WINDOW_SHARE } from "./rule/make_room.ts";
export type { Decision, DecisionCause, Summarise, Summary, SummaryRequest } from "./rule/plan.ts";
export type { Quote, QuotedPrompt } from "./rule/quote.ts";
export type { Cut } from "./rule/weigh_cuts.ts";
export { type DeferrableTools, worthDeferring } from "./rule/worth_deferring.ts";
export { type PlannerSession, plannerSession } from "./session.ts";
