import type { Message } from "@tare/messages";

/** Whether every provider refuses a prompt: nobody says anything in it, or a call and its result aren't together. */
export function isRefused(messages: readonly Message[]): boolean {
  const open = new Set<string>();
  let said = false;
  for (const message of messages) {
    if (message.role === "tool") {
      if (!open.delete(message.tool_call_id)) return true;
      continue;
    }
    if (open.size > 0) return true;
    if (message.role === "user") said = true;
    if (message.role !== "assistant") continue;
    said = true;
    for (const { id } of message.tool_calls ?? []) open.add(id);
  }
  return !said || open.size > 0;
}
