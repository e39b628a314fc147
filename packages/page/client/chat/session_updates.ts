import type { OwnSession } from "../api/sessions.ts";

export interface Listed {
  /** Revision; different whenever the session has changed. */
  readonly mark: string;
  readonly session?: OwnSession;
}

type Listener = (listed: Listed) => void;

const listeners = new Map<string, Listener>();

export function notifyListed(id: string, listed: Listed): void {
  listeners.get(id)?.(listed);
}

/** Listens to a session's entry until the returned function is called. Each session has at most one listener. */
export function listen(id: string, listener: Listener): () => void {
  listeners.set(id, listener);
  return () => {
    if (listeners.get(id) === listener) listeners.delete(id);
  };
}
