import { StoreError } from "../store_error.ts";

/** What PostgreSQL says of an error. */
interface DatabaseError extends Error {
  /** Five characters: see "PostgreSQL Error Codes" in its manual. */
  readonly code: string;
  readonly detail?: string;
  readonly hint?: string;
}

/** The error that the database itself gave, if one did. */
export function databaseError(error: unknown): DatabaseError | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("severity" in error)) return undefined;
  return error as DatabaseError;
}

/**
 * Whether the same may go well in a moment: the connection was lost or isn't there yet, the server is starting, ending
 * or has no place for another one, or two transactions stood in each other's way.
 */
export function isPassing(error: unknown): boolean {
  const code = databaseError(error)?.code;
  if (code !== undefined) return /^(08|40|57P0[1-35]|53300|25006|55P03)/.test(code);
  return error instanceof Error && !(error instanceof StoreError) && !isOwnFault(error) &&
    !isUntrusted(error);
}

/** Not the network's: a value that can't be sent, or a permission that isn't there. */
function isOwnFault(error: Error): boolean {
  return error instanceof TypeError || error instanceof RangeError || error.name === "NotCapable";
}

/** Whether nobody vouches for who answered: what TLS says then has no code that all runtimes give. */
function isUntrusted(error: unknown): boolean {
  return error instanceof Error && /certificate|altname/i.test(error.message);
}

/** What to do, by the beginning of PostgreSQL's code. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^28/, "Check the name and the password."],
  [/^3D/, "Make the database first: the store makes its tables, not the database."],
  [/^42501/, "Let this user make the schema tare, or give it one."],
  [/^53300/, "Raise max_connections there, or let the servers have fewer connections each."],
  [/^57014/, "It took too long; look at what the database is doing."],
  [/^25006/, "It takes no writes now: use the one that does."],
];

/**
 * What was thrown while the database was used, as a {@linkcode StoreError} if the database or the way to it is to
 * blame; else as it was. `place` says which, without a password.
 */
export function asStoreError(error: unknown, place: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const known = databaseError(error);
  const code = known?.code ?? "";
  // Those of the store's own functions are for who called them.
  if (
    code.startsWith("TA") ||
    (!known && (isOwnFault(error) || error.message.startsWith("Cannot use the store")))
  ) {
    return error;
  }
  const options = { cause: error };
  if (/^53100/.test(code)) {
    const text =
      `Cannot write to the store ${place}: ${error.message}. Nothing of this write was kept; make room for it.`;
    return new StoreError("full", text, options);
  }
  if (/^(XX00[12]|42P01|42703|42883|3F000)/.test(code)) {
    const text = `Cannot read the store ${place}: its tables aren't what they should be, ${error.message}. ` +
      "Restore it from a backup, or use another database.";
    return new StoreError("corrupt", text, options);
  }
  const advice = ADVICE.find(([pattern]) => pattern.test(code))?.[1] ??
    (isUntrusted(error)
      ? "Name the authority of its certificate by sslrootcert, and the host as the certificate does."
      : "Check that it runs and can be reached from here.");
  return new StoreError("io", `Cannot use the store ${place}: ${saidBy(error)}. ${advice}`, options);
}

/** An error of several attempts, such as one for each address of a host, says nothing itself. */
function saidBy(error: Error): string {
  const said = error instanceof AggregateError && error.message === "" ? error.errors[0] : error;
  return said instanceof Error ? said.message : String(said);
}

/** A database as errors name it: without user and password. */
export function databaseName(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return "of this URL";
  }
}
