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
  type Content,
  type ContentPart,
  contentText,
  type FunctionToolCall,
  type Message,
  pairCalls,
  type ToolCall,
  type ToolMessage,
} from "./message.ts";
export {
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  countToolTokens,
  estimateTokens,
  sampledCount,
} from "./count_tokens.ts";
export { partsOfBlock } from "./media.ts";
export {
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
export { countingPictures } from "./picture.ts";
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
