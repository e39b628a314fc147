import type { Sending } from "./conversation.ts";

const waiting = new Map<string, Sending>();

/** Leaves the first input of a session for the view that opens it. */
export function handOver(id: string, sending: Sending): void {
  waiting.set(id, sending);
}

/** Takes the first input of a session, once. */
export function takeOver(id: string): Sending | undefined {
  const sending = waiting.get(id);
  waiting.delete(id);
  return sending;
}
