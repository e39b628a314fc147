/**
 * Plans the prompts of an agent loop. Before each call a {@linkcode PromptSession} decides which parts of the
 * conversation the model still needs, weighs each rewrite against the provider's cache that it breaks,
 * archives evicted content, and records the cost of each call.
 *
 * @example
 * ```ts ignore
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { chooseProfile, plannerSession } from "@tare/planner";
 * import { memoryArchive, RECALL_TOOL, recallOriginal } from "@tare/prune";
 * import { readUsage } from "@tare/wire";
 * import OpenAI from "openai";
 *
 * const [client, model, archive] = [new OpenAI(), "gpt-5.5", memoryArchive()];
 * const session = plannerSession({ profile: chooseProfile({ model }), archive, countTokens: estimateTokens });
 * const messages: Message[] = [{ role: "user", content: "Why do nightly builds fail?" }];
 * while (messages.at(-1)?.role !== "assistant") {
 *   const view = await session.view({ messages, tools: [...tools, RECALL_TOOL] }, { nowMs: Date.now() });
 *   const prompt = { messages: view.messages, tools: view.tools } as OpenAI.ChatCompletionCreateParams;
 *   const { choices: [reply], usage } = await client.chat.completions.create({
 *     ...prompt,
 *     model,
 *     stream: false,
 *   });
 *   session.sent(readUsage(usage), view);
 *   messages.push(reply!.message);
 *   for (const call of reply!.message.tool_calls ?? []) {
 *     if (call.type !== "function") continue;
 *     const { name, arguments: args } = call.function;
 *     const isRecall = name === RECALL_TOOL.function.name;
 *     const content = isRecall
 *       ? (await recallOriginal(archive, JSON.parse(args))).content
 *       : await runTool(name);
 *     messages.push({ role: "tool", tool_call_id: call.id, content });
 *   }
 * }
 * ```
 *
 * @module
 */
export {
  chooseProfile,
  listPrice,
  listWindow,
  type Price,
  type Profile,
  type ProfileHints,
  profileNamed,
  readTooLong,
  type TooLong,
} from "./providers.ts";
export type { Summarize, SummaryRequest } from "./edits/make_summary.ts";
export { type Pin } from "./edits/pin.ts";
export type { Idle, KeepAliveRequest } from "./clock/clock.ts";
export { observeUpgrade, UNTRIED, type UpgradeOutcome, type UpgradeTrial } from "./clock/upgrade.ts";
export type { History } from "./edits/view.ts";
export type { KeepAliveEntry, LedgerEntry, SentKeepAlive } from "./ledger/entry.ts";
export {
  type AdvancedSessionOptions,
  type ForkOptions,
  type Mechanisms,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  PromptTooLong,
  type Quote,
  type Retention,
  type SessionView,
  type Standing,
} from "./prompt_session.ts";
export { type DeferOptions, worthDeferring } from "./rule/decide.ts";
export { plannerSession, type PlanningSession } from "./session.ts";
