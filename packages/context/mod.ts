/**
 * Keeps a tool loop from resending old turns with every follow-up call.
 *
 * A loop that appends each call and each result to one array of messages, and sends that array, pays for the whole
 * conversation once per tool call. {@linkcode toolLoopContext} leaves out of follow-up calls what lies too far back;
 * the conversation itself stays as it is.
 *
 * @example In a loop of your own
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { toolLoopContext } from "@tare/context";
 * import { estimateTokens, type Message } from "@tare/messages";
 *
 * const conversation: Message[] = [
 *   { role: "system", content: "You help with a garden." },
 *   { role: "user", content: "Tell me everything about roses." },
 *   { role: "assistant", content: "Roses are ".repeat(5_000) },
 *   { role: "user", content: "Thanks. And when did it last rain?" },
 * ];
 *
 * // A model that asks for the weather once, then answers.
 * const sent: number[] = [];
 * function callModel(messages: readonly Message[]): Message {
 *   sent.push(messages.length);
 *   if (messages.at(-1)?.role === "tool") return { role: "assistant", content: "Yesterday." };
 *   const call = { id: "1", type: "function" as const, function: { name: "weather", arguments: "{}" } };
 *   return { role: "assistant", tool_calls: [call] };
 * }
 *
 * for (;;) {
 *   const { messages } = toolLoopContext(conversation, {
 *     countTokens: estimateTokens,
 *     historyBudgetTokens: 8_000,
 *   });
 *   const reply = callModel(messages);
 *   conversation.push(reply);
 *   if (reply.role !== "assistant" || !reply.tool_calls) break;
 *   for (const call of reply.tool_calls) {
 *     conversation.push({ role: "tool", tool_call_id: call.id, content: "Last rain: yesterday." });
 *   }
 * }
 *
 * // The first call got all four messages, the second the system message and the active turn.
 * assertEquals(sent, [4, 4]);
 * assertEquals(conversation.length, 7);
 * ```
 *
 * @module
 */
export { fitTurns, type FitTurnsOptions } from "./fit_turns.ts";
export { groupTurns, type TurnRange } from "./group_turns.ts";
export { type ToolLoopContext, toolLoopContext, type ToolLoopContextOptions } from "./tool_loop_context.ts";
