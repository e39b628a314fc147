import type { Message, ToolDefinition } from "@tare/messages";
import type { Edit, ElideEdit } from "./edit.ts";

/** What a session has said, or what of it a model sees. */
export interface Conversation {
  /** In order, first to last. */
  readonly messages: readonly Message[];
  /** In the order in which the model is shown them. */
  readonly tools: readonly ToolDefinition[];
}

/**
 * What the model sees of a history after these edits. Pure: the same history and edits give the same bytes.
 * Messages that no edit touches keep their identity, and an edited message is the same object in every view, so
 * that what is remembered of it, such as its token count, stays known.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { view } from "@tare/planner";
 * import type { Message } from "@tare/messages";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Read a." },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "a long text" },
 * ];
 * const seen = view({ messages, tools: [] }, [{ type: "elide", index: 2, ref: "r1", text: "[elided r1]" }]);
 * assertEquals(seen.messages[2], { role: "tool", tool_call_id: "1", content: "[elided r1]" });
 * ```
 *
 * @throws {RangeError} if an edit names a message that is not there or not a tool result.
 */
export function view({ messages, tools }: Conversation, edits: readonly Edit[]): Conversation {
  const seen = messages.slice();
  for (const edit of edits) seen[edit.index] = elided(messages[edit.index], edit);
  return { messages: seen, tools };
}

const elidedMessages = new WeakMap<Message, Message>();

function elided(message: Message | undefined, { index, text }: ElideEdit): Message {
  if (message?.role !== "tool") {
    throw new RangeError(
      `Cannot elide message ${index}: it is ${message ? `a ${message.role}'s` : "not there"}`,
    );
  }
  const known = elidedMessages.get(message);
  if (known?.content === text) return known;
  const placeholder = { ...message, content: text };
  elidedMessages.set(message, placeholder);
  return placeholder;
}
