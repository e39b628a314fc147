import type { Message } from "@tare/messages";
import type { Session } from "./session.ts";

/** Lets a new session begin with what was said elsewhere. It is in the events, each message as it is. */
export function seedHistory(session: Session, messages: readonly Message[]): void {
  if (messages.length === 0) return;
  session.events.append(messages.map((message) => ({ type: "message_added", message })));
  session.history = [...session.history, ...messages];
}
