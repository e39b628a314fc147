import { StoreError } from "../store_error.ts";

const RESTORE = "Restore it from a backup, or move it away to begin anew.";

/** An error about a file that can't be relied on. `state` says what was found. */
export function corruptError(path: string, state: string, options?: ErrorOptions): StoreError {
  return new StoreError("corrupt", `Cannot read the store ${path}: ${state}. ${RESTORE}`, options);
}

/** An error about a file that isn't there any more, or nothing of it. */
export function goneError(path: string, state: "missing" | "empty"): StoreError {
  const advice = `Restore it from a backup, or move ${path}.lock away to begin anew.`;
  return new StoreError(
    "corrupt",
    `Cannot read the store ${path}: it is ${state}, but ${path}.lock says that there was one. ${advice}`,
  );
}

/** An error about a file that another process has open. */
function lockedError(path: string, options?: ErrorOptions): StoreError {
  const message = `Cannot open the store ${path}: another process has it open. Stop it, or use another file.`;
  return new StoreError("locked", message, options);
}

/** An error about a file that isn't under its name any more. */
export function lostError(path: string): StoreError {
  const message =
    `Cannot write to the store: ${path} was removed or replaced while it was open, so that nothing is kept any more. ` +
    "What was said until then can still be exported; restart the server then.";
  return new StoreError("lost", message);
}

/**
 * What was thrown while the file was used, as a {@linkcode StoreError} if the file is to blame; else as it was.
 * Not every runtime's `node:sqlite` gives error codes, so SQLite's own messages tell the cases apart.
 */
export function toStoreError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const { message } = error;
  const options = { cause: error };
  if (/database or disk is full|no space left|quota exceeded/i.test(message) || codeOf(error) === "EDQUOT") {
    const text =
      `Cannot write to the store ${path}: ${message}. Nothing of this write was kept; make room for it.`;
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
      `Cannot use the store ${path}: this process may not read and write there. Use another folder.`;
    return new StoreError("io", text, options);
  }
  // The system names each of its errors with a capital E and no underscore.
  const system = /^E[A-Z0-9]+$/.test(codeOf(error)) ||
    /disk I\/O error|unable to open database/.test(message);
  if (!system) return error;
  const text = `Cannot use the store ${path}: ${message}. Check the disk and who may read and write there.`;
  return new StoreError("io", text, options);
}

/** The same of what was thrown while the file was opened: then its tables are to blame for what SQL can't find. */
export function toOpenError(error: unknown, path: string): unknown {
  const known = toStoreError(error, path);
  if (known instanceof StoreError || !(known instanceof Error)) return known;
  return corruptError(path, `its tables aren't what they should be, ${known.message}`, { cause: known });
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}
