import type { Message } from "@tare/messages";

/**
 * Position of the first message that made a call which nothing answers yet; the number of messages if there is none.
 * Its answer may still come, so it must not leave. Of calls with the same id the newest is answered first.
 */
export function firstOpenCall(messages: readonly Message[]): number {
  const open = new Map<string, number[]>();
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool") open.get(message.tool_call_id)?.pop();
    if (message.role !== "assistant") continue;
    for (const { id } of message.tool_calls ?? []) {
      const calls = open.get(id);
      if (calls) calls.push(at);
      else open.set(id, [at]);
    }
  }
  return Math.min(messages.length, ...[...open.values()].flat());
}
