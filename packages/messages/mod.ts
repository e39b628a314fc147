/**
 * Messages, tool calls and tools of the OpenAI chat-completions wire format, and token counting.
 * The types are structural: `npm:openai`'s message parameters fit {@linkcode Message}, and other fields pass
 * through unchanged.
 *
 * @example
 * ```ts ignore
 * import { countRequestTokens, estimateTokens } from "@tare/messages";
 * import OpenAI from "openai";
 *
 * const request = { messages: [{ role: "user" as const, content: "Why do nightly builds fail?" }], tools };
 * const estimate = countRequestTokens(request, estimateTokens);
 * const { usage } = await new OpenAI().chat.completions.create({ ...request, model: "gpt-5.5" });
 * console.log(`Estimated ${estimate} tokens, charged ${usage?.prompt_tokens}.`);
 * ```
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
  type PlainMessage,
  type ToolCall,
  type ToolMessage,
} from "./message.ts";
export {
  type CountedRequest,
  countRequestTokens,
  type CountTokens,
  estimateTokens,
  sampledCount,
} from "./count_tokens.ts";
export { partsOfBlock } from "./media.ts";
export {
  type ContextHook,
  type ContextView,
  type Cost,
  type FinishReason,
  type InnerCall,
  type KeepablePrompt,
  type Model,
  type ModelEvent,
  type ModelRequest,
  type ModelSettings,
  type Rewrite,
  type StableMessages,
  type Usage,
} from "./model.ts";
export {
  type Effects,
  type FileChange,
  type JsonSchema,
  type NestedResult,
  type ResolvedCall,
  type Tool,
  type ToolContext,
  type ToolDefinition,
  type ToolOutput,
} from "./tool.ts";
