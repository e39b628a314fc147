import type { KeyName } from "./port.ts";

/** An error of opening, reading or writing a store, with its name and advice. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  /**
   * `full`: no space left; `corrupt`: damaged, or not a store; `locked`: opened by another process; `other_version`:
   * written by another version; `conflict`: the session or document was written since it was read; `fenced`: another
   * opening holds the session; `lost`: the file was removed or replaced while open; `io`: the system can't read or
   * write it.
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

  constructor(code: StoreError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Returns whether a write failed because the data was written since it was read. */
export function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === "conflict";
}

export function conflictError(id: string, { after, last }: { after: number; last: number }): StoreError {
  const message =
    `Cannot append after event ${after} of session ${JSON.stringify(id)}: its last event is ${last}. ` +
    "Read the newer events, and append after them.";
  return new StoreError("conflict", message);
}

export function changedError(kind: string, id: string): StoreError {
  const message = `Cannot write document ${JSON.stringify(id)} of kind ${JSON.stringify(kind)}: ` +
    "it was changed since it was read. Read it again and retry.";
  return new StoreError("conflict", message);
}

export function fencedError(id: string): StoreError {
  const message =
    `Cannot write to session ${JSON.stringify(id)}: this opening of the store doesn't hold it. ` +
    "Hold it, and read the newer events.";
  return new StoreError("fenced", message);
}

export function noSessionError(id: string): Error {
  return new Error(`Cannot find session ${JSON.stringify(id)}: there is no such session`);
}

export function sessionExistsError(id: string): Error {
  return new Error(`Cannot create session ${JSON.stringify(id)}: the id is taken`);
}

export function notClaimedError({ scope, key }: KeyName): Error {
  return new Error(`Cannot complete idempotency key ${JSON.stringify(key)} of ${scope}: it isn't claimed`);
}

export function otherTextError(ref: string): Error {
  return new Error(`Cannot archive a text under ${ref}: it contains other content`);
}

export function notRequestedError(requestId: string): Error {
  return new Error(`Cannot answer request ${JSON.stringify(requestId)}: it was withdrawn or answered`);
}
