import {
  type AssistantMessage,
  contentText,
  type FunctionToolCall,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { ApiError } from "@tare/wire/internal";
import type { Fault } from "./fault.ts";

export interface SimulatedRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

/** A call in a simulated reply. Default of `id`: generated. An empty `id` is sent unchanged. */
export type SimulatedToolCall = Omit<FunctionToolCall, "id"> & { readonly id?: string };

/** A simulated model's reply, an assistant message. Unknown fields are sent unchanged. */
export interface SimulatedReply extends Omit<AssistantMessage, "role" | "content" | "tool_calls"> {
  readonly content?: string | null;
  readonly tool_calls?: readonly SimulatedToolCall[];
  /** Finish reason. Default: `tool_calls` if there are any, otherwise `stop`. */
  readonly finish_reason?: string;
  readonly fault?: Fault;
}

export type SimulatedModel = (request: SimulatedRequest) => SimulatedReply | Promise<SimulatedReply>;

/**
 * Returns a model that gives these replies in order, one per request. A reply that is only a `fault` is a failing request.
 * After the last one the provider responds with status 400, which clients don't retry.
 *
 * @example
 * ```ts
 * import { scripted, simulator, toolCall } from "@tare/simulator";
 *
 * const provider = simulator({
 *   model: scripted([
 *     { fault: { type: "rate_limit", retryAfterMs: 10 } },
 *     { tool_calls: [toolCall("read_file", { path: "a.txt" })] },
 *     { content: "It says hello." },
 *   ]),
 *   tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
 * });
 * ```
 */
export function scripted(replies: readonly SimulatedReply[]): SimulatedModel {
  let given = 0;
  return () => {
    const reply = replies[given];
    if (!reply) {
      throw new ApiError(400, `Cannot reply: all ${replies.length} replies of the script have been given.`, {
        code: "script_exhausted",
      });
    }
    given++;
    return reply;
  };
}

/** Returns a call for a scripted reply. `args` is serialized as JSON; a string is sent unchanged. */
export function toolCall(
  name: string,
  args: Readonly<Record<string, unknown>> | string = {},
  options: { readonly id?: string } = {},
): SimulatedToolCall {
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return { ...options, type: "function", function: { name, arguments: text } };
}

/**
 * Returns a model that gives the assistant messages of one recorded conversation in order, with all their fields. Fields
 * that a recorder added must be removed before.
 *
 * Replies don't depend on the request, because earlier messages may have been evicted or summarized. Each conversation
 * needs its own replay, for instance under its own model name. A request with the same messages as the previous one is a
 * retry and gets the same reply. After the last reply the provider responds with status 400, which clients don't retry.
 *
 * @throws {TypeError} if a recorded call isn't a function call.
 */
export function replay(messages: readonly Message[]): SimulatedModel {
  const replies = messages.filter((message) => message.role === "assistant").map(toReply);
  let given = 0;
  let previous = "";
  return (request) => {
    const messagesText = JSON.stringify(request.messages);
    if (given > 0 && messagesText === previous) given--;
    const reply = replies[given];
    if (!reply) {
      throw new ApiError(400, `Cannot reply: all ${replies.length} recorded replies have been given.`, {
        code: "replay_exhausted",
      });
    }
    given++;
    previous = messagesText;
    return reply;
  };
}

function toReply({ role: _, content, tool_calls, ...rest }: AssistantMessage): SimulatedReply {
  return {
    ...rest,
    content: content ? contentText(content) : null,
    tool_calls: (tool_calls ?? []).map((call) => {
      if (call.type === "function") return call;
      throw new TypeError(
        `Cannot replay a ${call.type} tool call: only function calls are simulated. Convert or remove it.`,
      );
    }),
  };
}
