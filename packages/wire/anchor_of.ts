import { contentText, type Message } from "@tare/messages";

/**
 * Names what the model said by its content: the text, the ids of its calls, and the id of the item if it has one.
 * Clients send back what they got in their own spelling; these they keep.
 */
export function anchorOf(message: Message): string {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  const { id } = message as { readonly id?: unknown };
  return JSON.stringify([
    message.role,
    contentText(message.content).trim(),
    calls.map(({ id }) => id),
    id ?? null,
  ]);
}
