import type { Session } from "../api/sessions.ts";

type Listener = (session: Session) => void;

const listeners = new Map<string, Listener>();

/** Tells what the server's list says of a session to whoever shows it. */
export function heard(session: Session): void {
  listeners.get(session.id)?.(session);
}

/** Listens to what the list says of a session, until what it returns is called. */
export function listen(id: string, listener: Listener): () => void {
  listeners.set(id, listener);
  return () => listeners.delete(id);
}
