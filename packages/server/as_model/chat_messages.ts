import { contentText } from "@tare/messages";
import type { ChatMessage } from "./chat_completions_schema.ts";
import type { Said } from "./known_conversations.ts";
import { ApiError } from "@tare/wire";
import { unsupported } from "./unsupported.ts";

/** A conversation without its instructions. */
export interface Dialogue {
  /** All that the client's system and developer messages say, wherever they stand. */
  readonly instructions: string;
  /** What the user and the agent said. Its last message is the user's; neighbouring messages of the agent are one. */
  readonly dialogue: readonly Said[];
}

/**
 * Reads a conversation in the chat-completions format.
 *
 * @param parameter Name of the parameter that the messages come from, for errors.
 * @throws {ApiError} 400 if it holds tool calls or results, or doesn't end with a message of the user.
 */
export function readChatMessages(messages: readonly ChatMessage[], parameter: string): Dialogue {
  const instructions: string[] = [];
  const dialogue: Said[] = [];
  for (const [index, message] of messages.entries()) {
    const { role, content } = message;
    if (role === "tool" || role === "function" || callsTools(message)) {
      throw unsupported(
        `${parameter}[${index}]`,
        "the agent runs its own tools, so that clients neither see calls nor answer them",
      );
    }
    if (role === "user") dialogue.push({ role, content: content ?? "" });
    else if (role !== "assistant") instructions.push(contentText(content));
    else addAnswer(dialogue, contentText(content) || (message.refusal ?? ""));
  }
  if (dialogue.at(-1)?.role !== "user") {
    throw new ApiError(400, `Cannot answer: the last of the ${parameter} must be the user's.`, {
      code: "invalid_request",
      param: parameter,
    });
  }
  return { instructions: instructions.filter((text) => text !== "").join("\n\n"), dialogue };
}

function callsTools(message: object): boolean {
  const { tool_calls, function_call } = message as {
    tool_calls?: readonly unknown[];
    function_call?: unknown;
  };
  return Boolean(tool_calls?.length || function_call);
}

/** Providers refuse an answer that says nothing, and some clients send one answer in pieces. */
function addAnswer(dialogue: Said[], text: string): void {
  if (text.trim() === "") return;
  const last = dialogue.at(-1);
  if (last?.role !== "assistant") dialogue.push({ role: "assistant", content: text });
  else dialogue[dialogue.length - 1] = { role: "assistant", content: contentText(last.content) + text };
}
