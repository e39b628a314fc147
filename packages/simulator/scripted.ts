import { checkGiven } from "@tare/messages";
import { ApiError } from "@tare/wire";
import type { SimulatedModel, SimulatedReply, SimulatedToolCall } from "./model.ts";

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
  checkGiven("scripted()", { replies }, { replies: "array" });
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
  checkGiven("toolCall()", { name }, { name: "string" });
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return { ...options, type: "function", function: { name, arguments: text } };
}
