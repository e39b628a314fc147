import type { Session } from "../sessions/session.ts";

/** A session as chat messages, one a line of JSON, the system message first: what its ended turns left. */
export function exportSession({ history }: Pick<Session, "history">): string {
  return history.map((message) => `${JSON.stringify(message)}\n`).join("");
}
