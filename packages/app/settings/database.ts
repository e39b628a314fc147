import { isAbsolute } from "@std/path";
import { wholeNumber } from "@tare/cli/parts";
import type { openPostgresStore } from "@tare/conversation/postgres";
import { fromFolder, type Option } from "./option.ts";

/** The settings of a database that several servers share. */
export const DATABASE_OPTIONS = {
  database: {
    variable: "TARE_DATABASE",
    isSecret: true,
    help:
      "A PostgreSQL database that keeps the sessions in place of a file, so that several servers can share them: its address, or a file that holds it",
    read: readDatabase,
    right: "an address such as postgres://user:password@host:5432/name, or a file that holds one",
  },
  poolSize: {
    variable: "TARE_DATABASE_POOL",
    flag: "database-pool",
    fallback: "4",
    help:
      "Connections to the database for reading and writing; there is one more to listen, and two more for a moment at the start",
    ...wholeNumber(1, 100),
  },
  databaseSeconds: {
    variable: "TARE_DATABASE_TIMEOUT",
    flag: "database-timeout",
    fallback: "10",
    help:
      "Seconds for which a statement is tried, on new connections where one is lost, before its request fails",
    ...wholeNumber(1, 600),
  },
  statementSeconds: {
    variable: "TARE_STATEMENT_TIMEOUT",
    flag: "statement-timeout",
    help: "Seconds after which the database ends a statement. Default: half of TARE_DATABASE_TIMEOUT",
    ...wholeNumber(1, 600),
  },
  lockSeconds: {
    variable: "TARE_LOCK_TIMEOUT",
    flag: "lock-timeout",
    help:
      "Seconds that a statement waits for a lock before it is tried again. Default: as long as it may take at all",
    ...wholeNumber(1, 600),
  },
  connectSeconds: {
    variable: "TARE_CONNECT_TIMEOUT",
    flag: "connect-timeout",
    help:
      "Seconds that a connection to the database may take to be made. Default: half of TARE_DATABASE_TIMEOUT or of TARE_LEASE, whichever is less",
    ...wholeNumber(1, 600),
  },
  leaseSeconds: {
    variable: "TARE_LEASE",
    flag: "lease",
    fallback: "10",
    help:
      "Seconds for which others leave a server its sessions when nothing is heard of it; it is heard of three times as often",
    // A renewal has a second at least, and there is time for another one behind one that failed.
    ...wholeNumber(3, 600),
  },
} satisfies Record<string, Option<unknown>>;

/** The limits that those settings say, in seconds. */
export interface DatabaseLimits {
  readonly poolSize: number;
  readonly databaseSeconds: number;
  readonly statementSeconds?: number;
  readonly lockSeconds?: number;
  readonly connectSeconds?: number;
  readonly leaseSeconds: number;
}

/** @throws {RangeError} naming the first of them that is too long beside another one, and what would be right. */
export function checkDatabaseLimits(limits: DatabaseLimits): void {
  const { databaseSeconds, leaseSeconds, statementSeconds = databaseSeconds / 2 } = limits;
  const most = [
    ["statementSeconds", databaseSeconds, "TARE_DATABASE_TIMEOUT is how long it is tried in all"],
    [
      "lockSeconds",
      statementSeconds,
      "then the statement that waits is ended itself (TARE_STATEMENT_TIMEOUT)",
    ],
    ["connectSeconds", databaseSeconds, "TARE_DATABASE_TIMEOUT is how long it is tried in all"],
    [
      "connectSeconds",
      leaseSeconds / 2,
      `a lease of ${leaseSeconds} (TARE_LEASE) would be over before it is renewed`,
    ],
  ] as const;
  for (const [name, seconds, why] of most) {
    const given = limits[name];
    if (given === undefined || given <= seconds) continue;
    const { variable } = DATABASE_OPTIONS[name];
    throw new RangeError(`Cannot start: ${variable} is ${given}, but it must be at most ${seconds}: ${why}.`);
  }
}

/** The same as a store takes them. */
export function databaseLimits(
  { poolSize, databaseSeconds, statementSeconds, lockSeconds, connectSeconds, leaseSeconds }: DatabaseLimits,
): Parameters<typeof openPostgresStore>[1] {
  return {
    maxConnections: poolSize,
    timeoutMs: databaseSeconds * 1000,
    ...(statementSeconds !== undefined && { statementMs: statementSeconds * 1000 }),
    ...(lockSeconds !== undefined && { lockMs: lockSeconds * 1000 }),
    ...(connectSeconds !== undefined && { connectMs: connectSeconds * 1000 }),
    leaseMs: leaseSeconds * 1000,
  };
}

/** A PostgreSQL database, and how it is reached. */
interface Database {
  /** Its address. It may hold a password: it goes to the database's client and is never shown. */
  readonly url: string;
  /** Host and name, which may be shown. */
  readonly shown: string;
  /** Host and port, or the path of a socket. */
  readonly at: { readonly host: string } | { readonly socket: string };
  /** Files that are read for it: the one that held the address, and those with certificates. */
  readonly files: readonly string[];
}

/** How a database's address begins. */
const SCHEME = /^postgres(ql)?:\/\//;

const PORT = "5432";

/** How safe the connection has to be, as the client takes it: all but the first and the last check who answers. */
const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];

/** Parameters that name files with certificates and keys. */
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"];

/**
 * Reads the address of a database, or of the file that holds it.
 *
 * @throws {RangeError} saying what is wrong in it. It shows no part of it: where the password stands isn't sure then.
 */
function readDatabase(text: string, from?: string): Database | undefined {
  if (SCHEME.test(text)) return readAddress(text);
  const path = fromFolder(text, from);
  let held: string;
  try {
    held = Deno.readTextFileSync(path).trim();
  } catch (error) {
    const { NotFound, NotADirectory, IsADirectory } = Deno.errors;
    if ([NotFound, NotADirectory, IsADirectory].some((none) => error instanceof none)) return undefined;
    // The system's own message would show the path, which may be a mistyped address.
    throw wrong("names a file that can't be read", { cause: error });
  }
  if (!SCHEME.test(held)) throw wrong("names a file that doesn't begin with postgres://");
  const address = readAddress(held);
  return { ...address, files: [path, ...address.files] };
}

function readAddress(text: string): Database {
  const url = URL.parse(text);
  if (!url || url.hash !== "") {
    throw wrong(
      "can't be read as an address; in a password the signs # % / : ? @ are written as %23 %25 %2F %3A %3F %40",
    );
  }
  const host = decoded(url.hostname);
  const name = decoded(url.pathname.slice(1));
  if (host === "" || host.includes(",")) {
    throw wrong("must name one host, or as %2Fvar%2Frun%2Fpostgresql the folder of a socket");
  }
  if (url.username === "") throw wrong("must name a user in front of the host");
  if (name === "") throw wrong("must name a database behind the host");
  for (const part of [url.username, url.password]) decoded(part);
  const mode = url.searchParams.get("sslmode");
  if (mode !== null && !SSL_MODES.includes(mode)) {
    throw wrong(`has another sslmode than ${SSL_MODES.join(", ")}`);
  }
  const files = SSL_FILES.flatMap((name) => url.searchParams.get(name) ?? []);
  if (!files.every(isAbsolute)) {
    throw wrong(`names by ${SSL_FILES.join(", ")} a file whose path doesn't begin with /`);
  }
  const port = url.port || PORT;
  const isSocket = host.startsWith("/");
  return {
    url: text,
    shown: `${name} at ${isSocket ? host : `${host}:${port}`}`,
    at: isSocket ? { socket: `${host}/.s.PGSQL.${port}` } : { host: `${host}:${port}` },
    files,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw wrong("can't be read as an address: a % in it is written as %25", { cause });
  }
}

function wrong(state: string, options?: ErrorOptions): RangeError {
  return new RangeError(`Cannot start: TARE_DATABASE ${state}.`, options);
}
