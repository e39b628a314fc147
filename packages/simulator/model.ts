import type { AssistantMessage, FunctionToolCall, Message, ToolDefinition } from "@tare/messages";
import type { Fault } from "./fault.ts";

/** What a simulated model is asked. */
export interface SimulatedRequest {
  /** The model's name, as the client wrote it. */
  readonly model: string;
  /** The conversation, as it was sent. */
  readonly messages: readonly Message[];
  /** The tools that are offered; none if the request has no tools. */
  readonly tools: readonly ToolDefinition[];
}

/** A call in a simulated reply. Without an `id` the simulator makes one up; an empty `id` is sent as it is. */
export type SimulatedToolCall = Omit<FunctionToolCall, "id"> & { readonly id?: string };

/**
 * What a simulated model replies: the fields of an assistant message. Fields that the type doesn't name (signatures,
 * provider extensions) are sent as they are.
 */
export interface SimulatedReply extends Omit<AssistantMessage, "role" | "content" | "tool_calls"> {
  /** The text; default none. */
  readonly content?: string | null;
  /** Default none. */
  readonly tool_calls?: readonly SimulatedToolCall[];
  /** Default: `tool_calls` if there are any, otherwise `stop`. */
  readonly finish_reason?: string;
  /** How the provider shall misbehave with this reply; outranks the simulator's `faults`. */
  readonly fault?: Fault;
}

/** The model behind a simulated provider: one call of it is one request. */
export type SimulatedModel = (request: SimulatedRequest) => SimulatedReply | Promise<SimulatedReply>;
