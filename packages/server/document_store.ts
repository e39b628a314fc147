/** A JSON document that belongs to a session. */
export interface SessionDocument {
  /** What it is, as `response`. */
  readonly kind: string;
  /** Its name, unique among its kind. */
  readonly id: string;
  /** The session that it belongs to. */
  readonly sessionId: string;
  /** Its content as JSON text. */
  readonly json: string;
}

/** Keeps documents. A store may forget any of them; nothing is wrong then but that a client is told so. */
export interface DocumentStore {
  /** Keeps a document, in place of the one of the same kind and id. */
  readonly put: (document: SessionDocument) => Promise<void> | void;
  /** The document, or nothing if there is none or it was forgotten. */
  readonly get: (
    kind: string,
    id: string,
  ) => Promise<SessionDocument | undefined> | SessionDocument | undefined;
}
