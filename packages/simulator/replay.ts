import { type AssistantMessage, checkGiven, contentText, type Message } from "@tare/messages";
import { ApiError } from "@tare/wire";
import type { SimulatedModel, SimulatedReply } from "./model.ts";

/** Where a replayed conversation stands. */
export interface ReplayCursor {
  /** How many of the recorded assistant messages have been given. */
  given: number;
}

/**
 * A model that gives the assistant messages of one recorded conversation in their order, with every field that
 * they carry. Strip what a recorder added to them first.
 *
 * Which one is next is told by a cursor, not by the request: what stands between the agent and the provider may
 * have elided, dropped or summarised any of the earlier messages. So each conversation needs a replay of its own,
 * for instance under its own model name. A request with the same messages as the one before is a repetition
 * after a failure and gets the same reply again.
 *
 * After the last one the provider answers with status 400, which no client tries again.
 *
 * @throws {TypeError} if a recorded call isn't a function call.
 * @param options.cursor Where to start; it moves on with each reply and can be read and set. Default: the start.
 */
export function replay(
  messages: readonly Message[],
  options: { readonly cursor?: ReplayCursor } = {},
): SimulatedModel {
  checkGiven("replay()", { messages }, { messages: "messages" });
  const replies = messages.filter((message) => message.role === "assistant").map(toReply);
  const { cursor = { given: 0 } } = options;
  let previous = { asked: "", given: -1 };
  return (request) => {
    const asked = JSON.stringify(request.messages);
    if (asked === previous.asked && cursor.given === previous.given) cursor.given--;
    const reply = replies[cursor.given];
    if (!reply) {
      throw new ApiError(400, `Cannot reply: all ${replies.length} recorded replies have been given.`, {
        code: "replay_exhausted",
      });
    }
    cursor.given++;
    previous = { asked, given: cursor.given };
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
