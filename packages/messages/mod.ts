/**
 * Messages, tool calls and tools of the OpenAI chat-completions wire format, and counting their tokens.
 *
 * The types are structural: an array of `npm:openai`'s message parameters fits {@linkcode Message} as it is, and
 * fields that the types don't name pass through untouched.
 *
 * README.md shows it in use.
 *
 * @module
 */
export {
  type AssistantMessage,
  CALL_TOOL_NAME,
  callIds,
  type Content,
  type ContentPart,
  contentText,
  describeCall,
  firstWords,
  freeCallId,
  type FunctionToolCall,
  hashBytes,
  hashPiece,
  hashText,
  meantCall,
  type Message,
  pairCalls,
  personsWords,
  sameData,
  type ToolCall,
  type ToolMessage,
  toolMessage,
  transcribe,
} from "./message.ts";
export { exitCodeIn } from "./exit_code.ts";
export {
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  countToolTokens,
  estimateTokens,
  MESSAGE_OVERHEAD_TOKENS,
  sampledCount,
} from "./count_tokens.ts";
export { holdsMedia, isMedia, partsOfBlock } from "./media.ts";
export {
  addUsage,
  type ContextHook,
  type ContextView,
  type Cost,
  type FinishReason,
  type KeepablePrompt,
  type Model,
  type ModelEvent,
  type ModelRequest,
  type ModelSettings,
  type Rewrite,
  type StableMessages,
  type Usage,
} from "./model.ts";
export { countingPictures, pictureHead } from "./picture.ts";
export { sliceText } from "./slice_text.ts";
export { PLAN_TOOL_NAME, planAfter, type WorkPlan } from "./plan.ts";
export {
  type Effects,
  type FileChange,
  type JsonSchema,
  type NestedCalls,
  type NestedResult,
  type ResolvedCall,
  type Tool,
  type ToolContext,
  type ToolDefinition,
  type ToolOutput,
} from "./tool.ts";
