import { StoreError } from "../store_error.ts";

interface DatabaseError extends Error {
  /** Five characters: see "PostgreSQL Error Codes" in its manual. */
  readonly code: string;
  readonly detail?: string;
  readonly hint?: string;
}

/** Returns the database's own error, if there is one. */
export function databaseError(error: unknown): DatabaseError | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return error as DatabaseError;
}

/**
 * Returns whether a retry may succeed: lost or refused connections, a server that is starting, stopping or full, or conflicting
 * transactions.
 */
export function isPassing(error: unknown): boolean {
  const code = databaseError(error)?.code;
  if (code !== undefined) return /^(08|40|57P0[1-35]|53300|25006|55P03)/.test(code);
  return error instanceof Error && !(error instanceof StoreError) && !isOwnFault(error) &&
    !isUntrusted(error);
}

function isOwnFault(error: Error): boolean {
  return error instanceof TypeError || error instanceof RangeError || error.name === "NotCapable";
}

/** Returns whether the server's certificate isn't trusted. TLS errors have no code common to all runtimes. */
function isUntrusted(error: unknown): boolean {
  return error instanceof Error && /certificate|altname/i.test(error.message);
}

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^28/, "Check the name and the password."],
  [/^3D/, "Create the database first: the store creates only its tables."],
  [/^42501/, "Grant this user the right to create the schema tare, or create it."],
  [/^53300/, "Raise max_connections, or lower the servers' connections."],
  [/^57014/, "It timed out; check the load of the database."],
  [/^25006/, "It is read-only: use the primary."],
];

/**
 * Returns a {@linkcode StoreError} if the database or the connection failed; other errors unchanged. `place` contains
 * no password.
 */
export function asStoreError(error: unknown, place: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const known = databaseError(error);
  const code = known?.code ?? "";
  if (
    code.startsWith("TA") ||
    (!known && (isOwnFault(error) || error.message.startsWith("Cannot use the store")))
  ) {
    return error;
  }
  const options = { cause: error };
  if (/^53100/.test(code)) {
    const text =
      `Cannot write to the store ${place}: ${error.message}. Nothing was written. Free some space.`;
    return new StoreError("full", text, options);
  }
  if (/^(XX00[12]|42P01|42703|42883|3F000)/.test(code)) {
    const text = `Cannot read the store ${place}: its tables are damaged, ${error.message}. ` +
      "Restore it from a backup, or use another database.";
    return new StoreError("corrupt", text, options);
  }
  const advice = ADVICE.find(([pattern]) => pattern.test(code))?.[1] ??
    (isUntrusted(error)
      ? "Set sslrootcert to the authority of its certificate, and use the certificate's host name."
      : "Check that it is running and reachable.");
  return new StoreError("io", `Cannot use the store ${place}: ${messageOf(error)}. ${advice}`, options);
}

/** Returns an error's message. Errors of several attempts, such as one per address, have none of their own. */
function messageOf(error: Error): string {
  const cause = error instanceof AggregateError && error.message === "" ? error.errors[0] : error;
  return cause instanceof Error ? cause.message : String(cause);
}

/** Returns a database's name for errors, without user and password. */
export function databaseName(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return "of this URL";
  }
}
