import type { AssistantMessage, Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";
import type { Usage } from "./usage.ts";

/** What of a prompt's messages stays as it is, for providers that cache only up to where a request asks for it. */
export interface StableMessages {
  /** How many of them, from the first, an earlier request showed too. */
  readonly shared: number;
  /** How many of these end with the last that shows something else than what was said; 0 if none does. */
  readonly edited: number;
}

/**
 * How a model shall write, in the words of chat completions. What is absent is the provider's own default; what a
 * provider's protocol has no place for is refused, never dropped.
 */
export interface ModelSettings {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly seed?: number;
  readonly reasoning_effort?: string;
  readonly verbosity?: string;
  /** That a tool must be called, or which one. Default: the model chooses. */
  readonly tool_choice?: "required" | {
    readonly type: "function";
    readonly function: { readonly name: string };
  };
  /** Whether one reply may call several tools. */
  readonly parallel_tool_calls?: boolean;
}

/** One request to a model. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  /** The tools that the model may call. */
  readonly tools: readonly ToolDefinition[];
  /** How the model shall write. Default: as the provider likes. */
  readonly settings?: ModelSettings;
  /** What stays as it is. Default: it isn't known. */
  readonly stable?: StableMessages;
  /** Aborting it stops the request. */
  readonly signal: AbortSignal;
  /** Called when the provider shows that it is alive in a way that is no event, such as a keep-alive. */
  readonly progress?: () => void;
  /** Throws if nobody is to be asked any more: a model asks right before each request that it sends. Default: it may. */
  readonly confirm?: () => void;
}

/** Why the model stopped writing. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

/** What a model streams. The last event of a reply is `completed`; everything before is for those who watch. */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly text: string }
  | {
    readonly type: "tool_call_delta";
    /** Position of the call in the reply. */
    readonly index: number;
    /** As the provider sent it: perhaps missing, perhaps not unique. `completed` has the final one. */
    readonly id?: string;
    readonly name?: string;
    readonly arguments?: string;
  }
  | {
    readonly type: "completed";
    /** The whole reply, with every field that the provider sent. Its tool calls have ids that are unique and not empty. */
    readonly message: AssistantMessage;
    readonly finishReason: FinishReason;
    /** Absent if the provider sent none. */
    readonly usage?: Usage;
  };

/** The model port: one call of it is one request. Throws `ModelError` when the provider fails. */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;
