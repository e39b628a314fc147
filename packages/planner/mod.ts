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
export { PrefixCache, type PromptUnit } from "./cache/prefix_cache.ts";
export { promptUnits } from "./cache/prompt_units.ts";
export { classicSession } from "./classic_session.ts";
export type { CompactEdit, DropEdit, Edit, ElideEdit, SummariseEdit } from "./edits/edit.ts";
export { type Conversation, view } from "./edits/view.ts";
export type { LedgerEntry, PromptShares, UncachedCause } from "./ledger/ledger.ts";
export { promptCost } from "./ledger/price.ts";
export type {
  Mechanisms,
  PromptCall,
  PromptSession,
  PromptSessionOptions,
  SessionView,
} from "./prompt_session.ts";
export {
  chooseProfile,
  type Profile,
  type ProfileHints,
  profileNamed,
  PROFILES,
  type Warmth,
} from "./providers.ts";
export { BY_AGE, KEEP_WANTED, type Retention } from "./retention/retention.ts";
export type { Decision, DecisionCause, Summarise, Summary } from "./rule/plan.ts";
export type { Quote, QuotedPrompt } from "./rule/quote.ts";
export type { Cut } from "./rule/weigh_cuts.ts";
export { type PlannerSession, plannerSession } from "./session.ts";
