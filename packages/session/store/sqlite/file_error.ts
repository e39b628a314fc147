import { StoreError } from "../store_error.ts";

const RESTORE = "Restore it from a backup, or move it away to start with an empty store.";

/** Returns the error of a damaged file; `state` is the finding. */
export function corruptError(path: string, state: string, options?: ErrorOptions): StoreError {
  return new StoreError("corrupt", `Cannot read the store ${path}: ${state}. ${RESTORE}`, options);
}

/** Returns the error of a missing or empty file. */
export function goneError(path: string, state: "missing" | "empty"): StoreError {
  const advice = `Restore it from a backup, or move ${path}.lock away to start with an empty store.`;
  return new StoreError(
    "corrupt",
    `Cannot read the store ${path}: it is ${state}, but ${path}.lock shows that it existed. ${advice}`,
  );
}

function lockedError(path: string, options?: ErrorOptions): StoreError {
  const message = `Cannot open the store ${path}: another process has it open. Stop it, or use another file.`;
  return new StoreError("locked", message, options);
}

/** Returns the error of a file that was removed or replaced. */
export function lostError(path: string): StoreError {
  const message = `Cannot write to the store: ${path} was removed or replaced while it was open. ` +
    "Export the sessions, which can still be read, and restart the server.";
  return new StoreError("lost", message);
}

/**
 * Returns a {@linkcode StoreError} if the file caused the error; other errors unchanged. Not every runtime's
 * `node:sqlite` has error codes, so SQLite's messages are matched.
 */
export function toStoreError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const { message } = error;
  const options = { cause: error };
  if (/database or disk is full|no space left|quota exceeded/i.test(message) || codeOf(error) === "EDQUOT") {
    const text = `Cannot write to the store ${path}: ${message}. Nothing was written. Free some space.`;
    return new StoreError("full", text, options);
  }
  if (/malformed|file is not a database/.test(message)) return corruptError(path, message, options);
  if (/database (table )?is locked/.test(message)) return lockedError(path, options);
  if (/read-?only (file system|database)/i.test(message)) {
    const text =
      `Cannot use the store ${path}: its folder is read-only. Make it writable, or use another folder.`;
    return new StoreError("io", text, options);
  }
  if (error.name === "NotCapable") {
    const text =
      `Cannot use the store ${path}: this process has no permission to read and write it. Use another folder.`;
    return new StoreError("io", text, options);
  }
  // System error codes have a capital E and no underscore.
  const system = /^E[A-Z0-9]+$/.test(codeOf(error)) ||
    /disk I\/O error|unable to open database/.test(message);
  if (!system) return error;
  const text = `Cannot use the store ${path}: ${message}. Check the disk and the permissions.`;
  return new StoreError("io", text, options);
}

/** Returns the error of opening a file, for which missing tables count as damage. */
export function toOpenError(error: unknown, path: string): unknown {
  const known = toStoreError(error, path);
  if (known instanceof StoreError || !(known instanceof Error)) return known;
  return corruptError(path, `its tables are damaged, ${known.message}`, { cause: known });
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
