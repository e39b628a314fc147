import type { AgentSession } from "../api/sessions.ts";

/** What the server's lists say of a session. */
export interface Listed {
  /** Changes whenever something has happened in the session. */
  readonly mark: string;
  readonly session?: AgentSession;
}

type Listener = (listed: Listed) => void;

const listeners = new Map<string, Listener>();

/** Tells what the lists say of a session to whoever shows it. */
export function heard(id: string, listed: Listed): void {
  listeners.get(id)?.(listed);
}

/** Listens to what the lists say of a session, until what it returns is called. One view at a time shows a session. */
export function listen(id: string, listener: Listener): () => void {
  listeners.set(id, listener);
  return () => {
    if (listeners.get(id) === listener) listeners.delete(id);
  };
}
