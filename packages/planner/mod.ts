/**
 * When is a prompt worth rewriting? Edits and the view that they give, provider cache profiles, a model of their
 * caches, and the planner that weighs a rewrite against the cache that it breaks.
 *
 * @example Plan the calls of a loop of your own
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { chooseProfile, type Edit, Planner } from "@tare/planner";
 * import { memoryArchive } from "@tare/prune";
 *
 * const planner = new Planner({
 *   profile: chooseProfile({ model: "claude-opus-4" }),
 *   countTokens: estimateTokens,
 *   archive: memoryArchive(),
 *   windowTokens: 200_000,
 * });
 * const edits: Edit[] = []; // of this session, stored with its messages
 * const messages: Message[] = [{ role: "user", content: "Hello." }];
 *
 * // Before each call: plan, store the new edits, send the view.
 * const plan = await planner.plan({ messages, tools: [], edits, nowMs: Date.now() });
 * edits.push(...plan.edits);
 * assertEquals(plan.view.messages, messages);
 *
 * // After it: book what the provider reported, and store `planner.state`.
 * const entry = planner.sent(plan, { promptTokens: 6, cachedTokens: 0, outputTokens: 2 });
 * assertEquals(entry.cost, 6 * 1.25);
 * ```
 *
 * @module
 */
export { WINDOW_SHARE } from "./rule/decide.ts";
export * from "./classic_session.ts";
export * from "./edits/edit.ts";
export { type Removal, type RemovalOptions, type Way } from "./retention/find_removals.ts";
export {
  entryMoney,
  type LedgerEntry,
  type PromptShares,
  type TokenPrices,
  type UncachedCause,
} from "./ledger/ledger.ts";
export * from "./migrate_session_state.ts";
export * from "./rule/plan.ts";
export * from "./rule/planner.ts";
export * from "./rule/planner_state.ts";
export * from "./cache/prefix_cache.ts";
export * from "./ledger/price.ts";
export {
  chooseProfile,
  type Profile,
  type ProfileHints,
  profileNamed,
  PROFILES,
  type Warmth,
} from "./providers.ts";
export type {
  Mechanisms,
  PromptCall,
  PromptSession,
  PromptSessionOptions,
  SessionView,
} from "./prompt_session.ts";
export { promptUnits, sharedTokens } from "./cache/prompt_units.ts";
export type { Quote, QuotedPrompt } from "./rule/quote.ts";
export * from "./retention/retention.ts";
export * from "./session.ts";
export { type Conversation, type PlacedMessages, placeMessages, view } from "./edits/view.ts";
export * from "./cache/warmth.ts";
export { type Cut } from "./rule/weigh_cuts.ts";
