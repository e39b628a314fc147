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
  /** The model's name, as the client wrote it. */
  readonly model: string;
  /** The conversation, as it was sent. */
  readonly messages: readonly Message[];
  /** The tools that are offered; none if the request has no tools. */
  readonly tools: readonly ToolDefinition[];
}

/** A call in a simulated reply. Without an `id` the simulator makes one up; an empty `id` is sent as it is. */
export type SimulatedToolCall = Omit<FunctionToolCall, "id"> & { readonly id?: string };

/** Reply of a simulated model: an assistant message; unknown fields are sent unchanged. */
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

export type SimulatedModel = (request: SimulatedRequest) => SimulatedReply | Promise<SimulatedReply>;

/**
 * A model that gives these replies in turn, one for each request that reaches it, whatever the request says. A
 * reply that is only a `fault` stands for a request that fails.
 *
 * When they are used up, the provider answers with status 400, which no client tries again.
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

/** A call for a scripted reply. `args` is written as JSON unless it is a text, which is sent as it is. */
export function toolCall(
  name: string,
  args: Readonly<Record<string, unknown>> | string = {},
  options: { readonly id?: string } = {},
): SimulatedToolCall {
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return { ...options, type: "function", function: { name, arguments: text } };
}

/**
 * Returns a model that gives the assistant messages of one recorded conversation in their order, with all their fields.
 * What a recorder added to them must be removed before.
 *
 * The next one doesn't depend on the request: what is between the agent and the provider may have evicted or summarized any
 * of the earlier messages. So each conversation needs a replay of its own, for instance under its own model name. A request
 * with the same messages as the one before is a retry and gets the same reply again. After the last one the provider
 * answers with status 400, which no client retries.
 *
 * @throws {TypeError} if a recorded call isn't a function call.
 */
export function replay(messages: readonly Message[]): SimulatedModel {
  const replies = messages.filter((message) => message.role === "assistant").map(toReply);
  let given = 0;
  let previous = "";
  return (request) => {
    const asked = JSON.stringify(request.messages);
    if (given > 0 && asked === previous) given--;
    const reply = replies[given];
    if (!reply) {
      throw new ApiError(400, `Cannot reply: all ${replies.length} recorded replies have been given.`, {
        code: "replay_exhausted",
      });
    }
    given++;
    previous = asked;
    return reply;
  };
}

function toReply({ role: _, content, tool_calls, ...rest }: AssistantMessage): SimulatedReply {
  return {
    ...rest,
    content: content ? contentText(content) : null,
    tool_calls: (tool_calls ?? []).map((call) => {
      if (call.type === "function") return call;
      throw new TypeError(`Cannot replay a ${call.type} tool call: only function calls are simulated`);
    }),
  };
}
