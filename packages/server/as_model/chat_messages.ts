import { contentText, type FunctionToolCall, type ToolCall } from "@tare/messages";
import type { ChatMessage } from "./chat_completions_schema.ts";
import { invalid, unsupported, unusable } from "./errors.ts";
import type { SaidMessage } from "./known_conversations.ts";

/** A conversation without its instructions. */
export interface Dialogue {
  /** All that the client's system and developer messages say, wherever they stand. */
  readonly instructions: string;
  /**
   * What the user and the agent said, and what came of the calls that the agent left to its client. Its last message is
   * the user's or such a result; neighbouring messages of the agent are one.
   */
  readonly dialogue: readonly SaidMessage[];
}

/**
 * Reads a conversation in the chat-completions format.
 *
 * @param options.parameter Name of the parameter that the messages come from, for errors.
 * @param options.open Ids of the calls that stand before it without a result. Default: none.
 * @throws {ApiError} 400 if a call has no result right after it, or a result no call right before it, or the
 * conversation doesn't end with a message of the user or a result.
 */
export function readChatMessages(
  messages: readonly ChatMessage[],
  { parameter, open = [] }: { readonly parameter: string; readonly open?: readonly string[] },
): Dialogue {
  const instructions: string[] = [];
  const dialogue: SaidMessage[] = [];
  let waiting: readonly string[] = open;
  const checkAnswered = () => {
    if (waiting.length === 0) return;
    const ids = waiting.map((id) => JSON.stringify(id)).join(", ");
    const state = `the result of ${ids} is missing; the results of all calls must come right after them`;
    throw invalid(parameter, `Cannot answer: ${state}.`);
  };
  for (const [index, message] of messages.entries()) {
    const { role, content, tool_call_id: id = "" } = message;
    const place = `${parameter}[${index}]`;
    if (role === "function" || "function_call" in message && message.function_call) {
      throw unsupported(
        place,
        "functions have given way to tools: send tool_calls, and results with role tool",
      );
    }
    switch (role) {
      case "user":
        checkAnswered();
        dialogue.push({ role, content: content ?? "" });
        break;
      case "tool":
        if (!waiting.includes(id)) {
          const state = `it answers call ${JSON.stringify(id)}, which waits for no result there`;
          throw unusable(place, state);
        }
        waiting = waiting.filter((one) => one !== id);
        dialogue.push({ role, tool_call_id: id, content: content ?? "" });
        break;
      case "assistant": {
        const calls = functionCalls(message.tool_calls ?? [], place);
        if (dialogue.at(-1)?.role !== "assistant") checkAnswered();
        addAnswer(dialogue, contentText(content) || (message.refusal ?? ""), calls);
        waiting = [...waiting, ...calls.map(({ id }) => id)];
        break;
      }
      default:
        instructions.push(contentText(content));
    }
  }
  checkAnswered();
  const last = dialogue.at(-1)?.role;
  if (last !== "user" && last !== "tool") {
    const right = "must be the user's or the result of a call";
    throw invalid(parameter, `Cannot answer: the last of the ${parameter} ${right}.`);
  }
  return { instructions: instructions.filter((text) => text !== "").join("\n\n"), dialogue };
}

function functionCalls(calls: readonly ToolCall[], place: string): readonly FunctionToolCall[] {
  return calls.map((call, index) => {
    if (call.type === "function") return call;
    throw unsupported(`${place}.tool_calls[${index}]`, "the agent takes calls of functions alone");
  });
}

/** Providers refuse an answer that says nothing, and some clients send one answer in pieces. */
function addAnswer(dialogue: SaidMessage[], text: string, calls: readonly FunctionToolCall[]): void {
  if (text.trim() === "" && calls.length === 0) return;
  const before = dialogue.at(-1);
  const goesOn = before?.role === "assistant";
  const allCalls = [...(goesOn ? before.tool_calls ?? [] : []), ...calls];
  const whole: SaidMessage = {
    role: "assistant",
    content: goesOn ? contentText(before.content) + text : text,
    ...(allCalls.length > 0 && { tool_calls: allCalls }),
  };
  dialogue.splice(goesOn ? -1 : dialogue.length, goesOn ? 1 : 0, whole);
}
