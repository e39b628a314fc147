import type { AssistantMessage, Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";
import type { Usage } from "./usage.ts";

/** One request to a model. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  /** The tools that the model may call. */
  readonly tools: readonly ToolDefinition[];
  /** Aborting it stops the request. */
  readonly signal: AbortSignal;
  /** Called when the provider shows that it is alive in a way that is no event, such as a keep-alive. */
  readonly progress?: () => void;
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
