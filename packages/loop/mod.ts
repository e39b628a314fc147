/**
 * The agent loop over two ports (model, tool) and one hook (context).
 *
 * ```ts ignore
 * import { run } from "@tare/loop";
 * import { openaiModel } from "@tare/loop/openai";
 * import { workspaceTools } from "@tare/tools";
 *
 * const model = openaiModel({
 *   model: "gpt-5.5",
 *   apiKey: Deno.env.get("OPENAI_API_KEY")!,
 *   baseURL: Deno.env.get("OPENAI_BASE_URL") ?? "https://api.openai.com/v1",
 * });
 * const tools = workspaceTools({ workspace });
 * for await (const event of run({ model, tools, history: [], input: "What is in notes.txt?" })) {
 *   if (event.type === "text_delta") console.log(event.text);
 * }
 * ```
 *
 * @module
 */
export {
  addLedgers,
  type AnsweredCall,
  type AskedCall,
  BudgetSpent,
  EMPTY_LEDGER,
  type Journal,
  type Judge,
  type Judgement,
  type LoopEvent,
  ModelError,
  type TurnEnd,
  type TurnLedger,
} from "./event.ts";
export type { ProviderOptions } from "./provider.ts";
export { run, type TurnResult } from "./run.ts";
export type {
  ResumedTurn,
  RunOptions,
  TurnApprovals,
  TurnCosts,
  TurnLimits,
  TurnTime,
} from "./run_options.ts";
export { type Clock } from "./watchdog.ts";
