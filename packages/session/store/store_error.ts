import type { KeyName } from "./port.ts";

/** Thrown when a store can't be opened, read or written. Its message names the store and what to do. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  /**
   * What is wrong with a store: there is no room (`full`), it is damaged or no store (`corrupt`), another process has it
   * open (`locked`), another version of the program wrote it (`other_version`), the session or document was written elsewhere
   * since it was read (`conflict`), another opening holds the session (`fenced`), its file was removed or replaced while it
   * was open (`lost`), or the system can't read or write it (`io`).
   */
  readonly code:
    | "full"
    | "corrupt"
    | "locked"
    | "other_version"
    | "conflict"
    | "fenced"
    | "lost"
    | "io";

  /** An error with this code and message. */
  constructor(code: StoreError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns whether a write failed because something was written since it was read: it is to be read again. */
export function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === "conflict";
}

/** Nobody's events may come between those that a writer knows and those that it writes. */
export function conflictError(id: string, { after, last }: { after: number; last: number }): StoreError {
  const message =
    `Cannot write behind event ${after} of session ${JSON.stringify(id)}: its last event is ${last}. ` +
    "Read what was written since, and write behind that.";
  return new StoreError("conflict", message);
}

/** Only the document that its writer has read is replaced. */
export function changedError(kind: string, id: string): StoreError {
  const message = `Cannot write document ${JSON.stringify(id)} of kind ${JSON.stringify(kind)}: ` +
    "it was changed since it was read. Read it again, and change that.";
  return new StoreError("conflict", message);
}

/** Only who holds a session writes to it. */
export function fencedError(id: string): StoreError {
  const message =
    `Cannot write to session ${JSON.stringify(id)}: this opening of the store doesn't hold it. ` +
    "Take it, and read what was written since.";
  return new StoreError("fenced", message);
}

/** What every store says of a session that it doesn't have. */
export function noSessionError(id: string): Error {
  return new Error(`Cannot find session ${JSON.stringify(id)}: there is no such session`);
}

/** What every store says of a second session of one id. */
export function sessionExistsError(id: string): Error {
  return new Error(`Cannot create session ${JSON.stringify(id)}: there is one of this id`);
}

/** What every store says of a response to a key that isn't the caller's. */
export function notClaimedError({ scope, key }: KeyName): Error {
  return new Error(`Cannot complete idempotency key ${JSON.stringify(key)} of ${scope}: it isn't claimed`);
}

/** What every store says of a second text under one reference. */
export function otherTextError(ref: string): Error {
  return new Error(`Cannot archive a text under ${ref}: other content stands there`);
}

/** What every store says of an answer that nobody waits for. */
export function notAskedError(requestId: string): Error {
  return new Error(`Cannot answer request ${JSON.stringify(requestId)}: nobody waits for an answer to it`);
}
