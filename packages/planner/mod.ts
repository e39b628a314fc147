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
  chooseProfile,
  listPrice,
  listWindow,
  type Price,
  type Profile,
  profileNamed,
  PROFILES,
  readTooLong,
} from "./providers.ts";
export type { CompactionHabit } from "./agents.ts";
export type { Summarise, Summary, SummaryRequest } from "./edits/make_summary.ts";
export { type Pin } from "./edits/pin.ts";
export type { Idle, Ping } from "./clock/clock.ts";
export { observeUpgrade, UNTRIED, type UpgradeEvidence, type UpgradeTrial } from "./clock/upgrade.ts";
export type { History } from "./edits/view.ts";
export type {
  CallWarmth,
  ClientChange,
  Decision,
  LedgerEntry,
  PingEntry,
  PingSent,
  ProjectedCall,
  PromptShares,
  UncachedTokens,
} from "./ledger/entry.ts";
export {
  type AdvancedSessionOptions,
  type DeferredTools,
  type ForkOptions,
  type LongestMessage,
  type Mechanisms,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  PromptTooLong,
  type Quote,
  type QuotedPrompt,
  type Refusal,
  type Retention,
  type SavedTokens,
  type SessionView,
  type Standing,
} from "./prompt_session.ts";
export { plannerSession, type PlanningSession } from "./session.ts";
