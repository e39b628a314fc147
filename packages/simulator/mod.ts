/**
 * A simulated provider, OpenAI-compatible and for Anthropic's Messages API, with an exact prefix cache, and its models:
 * {@linkcode scripted} replies, {@linkcode replay} of a recorded conversation, and {@linkcode demoModel}, the offline demo
 * model, which uses real tools by fixed rules.
 *
 * @module
 */
export { type Dialect, DIALECTS, refusalIn, refusalOf } from "./dialects.ts";
export type { Fault, ToolCallPieces } from "./fault.ts";
export {
  replay,
  scripted,
  type SimulatedModel,
  type SimulatedReply,
  type SimulatedRequest,
  type SimulatedToolCall,
  toolCall,
} from "./model.ts";
export type { Encoder } from "./provider/prompt_units.ts";
export {
  type FaultRequest,
  type SimulatedCall,
  type Simulator,
  simulator,
  type SimulatorOptions,
} from "./provider/simulator.ts";
export { demoModel } from "./demo/demo_model.ts";
