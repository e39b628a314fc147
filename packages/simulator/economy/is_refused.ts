import type { Message } from "@tare/messages";

/** Returns whether every provider rejects a prompt: it has no user or assistant message, or a call without its result. */
export function isRefused(messages: readonly Message[]): boolean {
  const open = new Set<string>();
  let hasMessage = false;
  for (const message of messages) {
    if (message.role === "tool") {
      if (!open.delete(message.tool_call_id)) return true;
      continue;
    }
    if (open.size > 0) return true;
    if (message.role === "user") hasMessage = true;
    if (message.role !== "assistant") continue;
    hasMessage = true;
    for (const { id } of message.tool_calls ?? []) open.add(id);
  }
  return !hasMessage || open.size > 0;
}
