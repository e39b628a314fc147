/**
 * Keeps a tool loop from resending old turns with every follow-up call.
 *
 * A loop that appends each call and each result to one array of messages, and sends that array, pays for the whole
 * conversation once per tool call. {@linkcode toolLoopContext} leaves out of follow-up calls what lies too far back;
 * the conversation itself stays as it is.
 *
 * @example
 * ```ts ignore
 * import { toolLoopContext } from "@tare/context";
 * import OpenAI from "openai";
 *
 * const shown = toolLoopContext(conversation, { historyBudgetTokens: 8_000 });
 * const reply = await new OpenAI().chat.completions.create({
 *   model: "gpt-5.5",
 *   messages: [...shown.messages],
 *   tools,
 * });
 * ```
 *
 * @module
 */
export { groupTurns, type Turn } from "./group_turns.ts";
export { toolLoopContext, type ToolLoopOptions, type ToolLoopView } from "./tool_loop_context.ts";
