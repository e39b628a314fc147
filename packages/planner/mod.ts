/**
 * When is a prompt worth rewriting? A {@linkcode PromptSession} decides before each call of an agent loop what of the
 * conversation the model still needs to see, weighs each rewrite against the provider's cache that it breaks, archives
 * what leaves, and books what each call cost.
 *
 * @example A loop of your own
 * ```ts
 * import { assert, assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { chooseProfile, plannerSession, type SessionView } from "@tare/planner";
 * import { memoryArchive, RECALL_TOOL } from "@tare/prune";
 *
 * // Your model and your tools: here one that asks for a log, then answers.
 * const call = { id: "1", type: "function", function: { name: "read_log", arguments: "{}" } } as const;
 * const usage = { promptTokens: 8_400, cachedTokens: 0, outputTokens: 9 };
 * const callModel = ({ messages }: SessionView) =>
 *   messages.length === 1
 *     ? { message: { role: "assistant", tool_calls: [call] } as const, usage: { ...usage, promptTokens: 350 } }
 *     : { message: { role: "assistant", content: "The server is up." } as const, usage };
 * const runTool = () => "GET /index.html 200\n".repeat(8_000);
 *
 * const session = plannerSession({
 *   profile: chooseProfile({ model: "gpt-5.5" }),
 *   archive: memoryArchive(),
 *   countTokens: estimateTokens,
 *   windowTokens: 200_000,
 * });
 * const tools = [{ type: "function", function: { name: "read_log" } } as const, RECALL_TOOL];
 * const messages: Message[] = [{ role: "user", content: "Is the server up?" }];
 * do {
 *   const view = await session.view({ messages, tools }, { nowMs: Date.now() });
 *   // Store session.state with the messages; then send the view.
 *   const { message, usage } = callModel(view);
 *   assertEquals(session.sent(usage)?.cost, usage.promptTokens);
 *   messages.push(message);
 *   for (const { id } of "tool_calls" in message ? message.tool_calls : []) {
 *     messages.push({ role: "tool", tool_call_id: id, content: runTool() });
 *   }
 * } while (messages.at(-1)?.role === "tool");
 *
 * // Of the log the model saw head and tail; the rest is in the archive, and recallOriginal() reads it back.
 * const { saved, promptTokens } = await session.view({ messages, tools }, { nowMs: Date.now() });
 * assert(saved.truncate > 30_000 && promptTokens < 9_000);
 * ```
 *
 * @module
 */
export { WINDOW_SHARE } from "./rule/decide.ts";
export * from "./classic_session.ts";
export * from "./edits/edit.ts";
export { type Removal, type RemovalOptions, type Way } from "./retention/find_removals.ts";
export type { LedgerEntry, PromptShares, UncachedCause } from "./ledger/ledger.ts";
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
