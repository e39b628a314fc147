/**
 * Removes old turns from the follow-up calls of a tool loop.
 *
 * A loop that sends its whole array of messages with every tool call pays for the whole conversation each
 * time. {@linkcode toolLoopContext} omits distant turns from follow-up calls; the conversation itself is
 * unchanged.
 *
 * @example
 * ```ts ignore
 * import { toolLoopContext } from "@tare/context";
 * import OpenAI from "openai";
 *
 * const view = toolLoopContext(conversation, { historyBudgetTokens: 8_000 });
 * const reply = await new OpenAI().chat.completions.create({
 *   model: "gpt-5.5",
 *   messages: [...view.messages],
 *   tools,
 * });
 * ```
 *
 * @module
 */
export { groupTurns, type Turn } from "./group_turns.ts";
export { toolLoopContext, type ToolLoopOptions, type ToolLoopView } from "./tool_loop_context.ts";
