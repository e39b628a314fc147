/**
 * The agent loop over two ports (model, tool) and one hook (context).
 *
 * @example Run a turn with a scripted model and one tool
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { run } from "@tare/loop";
 * import type { Model, Tool } from "@tare/messages";
 *
 * const clock: Tool = {
 *   definition: { type: "function", function: { name: "clock", description: "Returns the time." } },
 *   run: () => "12:00",
 * };
 *
 * // Calls the tool first, and answers once it has the result.
 * const model: Model = async function* ({ messages }) {
 *   const last = messages.at(-1);
 *   if (last?.role === "tool") {
 *     const content = `It is ${last.content}.`;
 *     yield { type: "completed", message: { role: "assistant", content }, finishReason: "stop" };
 *     return;
 *   }
 *   const call = { id: "1", type: "function", function: { name: "clock", arguments: "{}" } } as const;
 *   yield { type: "completed", message: { role: "assistant", tool_calls: [call] }, finishReason: "tool_calls" };
 * };
 *
 * let answer = "";
 * for await (const event of run({ model, tools: [clock], history: [], input: "What time is it?" })) {
 *   if (event.type === "turn_end") answer = event.text;
 * }
 * assertEquals(answer, "It is 12:00.");
 * ```
 *
 * @module
 */
export {
  type AnsweredCall,
  type Journal,
  type Judge,
  type Judgement,
  type LoopEvent,
  ModelError,
  type PendingCall,
  type TurnEnd,
  type TurnLedger,
} from "./event.ts";
export type { ProviderOptions } from "./provider.ts";
export { run, type TurnResult } from "./run.ts";
export type { Clock, RunLimits, RunOptions, TurnApprovals, TurnCosts } from "./run_options.ts";
