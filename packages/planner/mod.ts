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
export { WINDOW_SHARE } from "./decide.ts";
export * from "./classic_session.ts";
export * from "./edit.ts";
export { type Removal, type RemovalOptions, type Way } from "./find_removals.ts";
export {
  entryMoney,
  type LedgerEntry,
  type PromptShares,
  type TokenPrices,
  type UncachedCause,
} from "./ledger.ts";
export * from "./migrate_session_state.ts";
export * from "./plan.ts";
export * from "./planner.ts";
export * from "./planner_state.ts";
export * from "./prefix_cache.ts";
export * from "./price.ts";
export * from "./profile.ts";
export type {
  Mechanisms,
  PromptCall,
  PromptSession,
  PromptSessionOptions,
  SessionView,
} from "./prompt_session.ts";
export { promptUnits, sharedTokens } from "./prompt_units.ts";
export type { Quote, QuotedPrompt } from "./quote.ts";
export * from "./retention.ts";
export * from "./session.ts";
export { type Conversation, type PlacedMessages, placeMessages, view } from "./view.ts";
export * from "./warmth.ts";
export { type Cut } from "./weigh_cuts.ts";
