/**
 * Conversion of model calls: requests of Anthropic's and OpenAI's SDKs for a session of `@tare/planner`, and
 * requests that every provider accepts.
 *
 * ```ts ignore
 * import Anthropic from "@anthropic-ai/sdk";
 * import { estimateTokens } from "@tare/messages";
 * import { chooseProfile, plannerSession } from "@tare/planner";
 * import { memoryArchive, RECALL_TOOL, recallOriginal } from "@tare/prune";
 * import { fromAnthropic, readUsage, toAnthropic } from "@tare/wire";
 *
 * const [client, model, archive] = [new Anthropic(), "claude-sonnet-5", memoryArchive()];
 * const settings = { model, max_tokens: 4_000, cache_control: { type: "ephemeral" as const } };
 * const session = plannerSession({ profile: chooseProfile({ model }), archive, countTokens: estimateTokens });
 * const messages: Anthropic.MessageParam[] = [{ role: "user", content: "Why do nightly builds fail?" }];
 * while (messages.at(-1)?.role !== "assistant") {
 *   const request = { ...settings, tools, messages };
 *   const { messages: history, tools: own } = fromAnthropic(request);
 *   const view = await session.view({ messages: history, tools: [...own, RECALL_TOOL] }, { nowMs: Date.now() });
 *   const { content, usage } = await client.messages.create(toAnthropic(request, view));
 *   session.sent(readUsage(usage), view);
 *   messages.push({ role: "assistant", content });
 *   const results: Anthropic.ToolResultBlockParam[] = [];
 *   for (const call of content.filter((block) => block.type === "tool_use")) {
 *     const isRecall = call.name === RECALL_TOOL.function.name;
 *     const text = isRecall ? (await recallOriginal(archive, Object(call.input))).content : runTool(call.name);
 *     results.push({ type: "tool_result", tool_use_id: call.id, content: text });
 *   }
 *   if (results.length > 0) messages.push({ role: "user", content: results });
 * }
 * ```
 *
 * @module
 */
export { messagesBody, type MessagesBodyOptions } from "./anthropic/write_messages_body.ts";
export { chatBody, type ChatBodyOptions, readUsage } from "./chat/chat_completions.ts";
export {
  type AnthropicRequest,
  fromAnthropic,
  fromResponses,
  type OpenaiResponsesRequest,
  type RequestView,
  toAnthropic,
  toResponses,
} from "./converters.ts";
export type { JsonRecord } from "./json.ts";
export { responsesBody } from "./responses/write_responses_body.ts";
