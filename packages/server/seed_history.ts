import type { LoopEvent } from "@tare/loop";
import { contentText, type Message, type ToolMessage } from "@tare/messages";
import type { Session } from "./session.ts";

/** Lets a new session begin with what was said elsewhere. It is in the events, as if it had been said here. */
export function seedHistory(session: Session, messages: readonly Message[]): void {
  if (messages.length === 0) return;
  session.events.append(seedEvents(messages));
  session.history = [...session.history, ...messages];
}

/** The events from which a history of users, assistants and tools is rebuilt. They are part of no turn. */
function seedEvents(messages: readonly Message[]): LoopEvent[] {
  const names = new Map<string, string>();
  const events: LoopEvent[] = [];
  for (const message of messages) {
    switch (message.role) {
      case "user":
        events.push({ type: "user_message", step: 1, input: message.content });
        break;
      case "assistant":
        for (const call of message.tool_calls ?? []) {
          names.set(call.id, call.type === "function" ? call.function.name : call.custom.name);
        }
        events.push({ type: "assistant_message", step: 1, message });
        break;
      case "tool":
        events.push(resultEvent(message, names.get(message.tool_call_id) ?? ""));
        break;
      default:
        throw new TypeError(`Cannot seed a session: its history holds a message of role ${message.role}.`);
    }
  }
  return events;
}

function resultEvent({ tool_call_id: id, content }: ToolMessage, name: string): LoopEvent {
  const text = contentText(content);
  const bytes = new TextEncoder().encode(text).length;
  return { type: "tool_result", step: 1, id, name, content: text, error: false, bytes, durationMs: 0 };
}
