import type { OwnSession } from "../api/sessions.ts";

/** A session's entry in the server's lists. */
export interface Listed {
  /** Changes whenever the session has changed. */
  readonly mark: string;
  readonly session?: OwnSession;
}

type Listener = (listed: Listed) => void;

const listeners = new Map<string, Listener>();

/** Passes a session's entry to the view that shows it. */
export function heard(id: string, listed: Listed): void {
  listeners.get(id)?.(listed);
}

/** Listens to a session's entry, until the returned function is called. One view at a time shows a session. */
export function listen(id: string, listener: Listener): () => void {
  listeners.set(id, listener);
  return () => {
    if (listeners.get(id) === listener) listeners.delete(id);
  };
}
