import { isAbsolute } from "@std/path";
import type { openS3Objects } from "@tare/session/s3";
import { fromFolder, isAddress } from "./option.ts";

/** A PostgreSQL database, and how it is reached. */
interface Database {
  /** Its address, which may hold a password: only the database's client receives it, and it is never shown. */
  readonly url: string;
  /** Host and name, which may be shown. */
  readonly shown: string;
  /** Host and port, or the path of a socket. */
  readonly at: { readonly host: string } | { readonly socket: string };
  /** Files that are read for it: the one that holds the address, and those with certificates. */
  readonly files: readonly string[];
}

/** Start of a database's address. */
const SCHEME = /^postgres(ql)?:\/\//;

const PORT = "5432";

/** The client's modes of a connection's security. */
const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];

/** Parameters that name files with certificates and keys. */
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"];

/**
 * Reads the address of a database, or of the file that holds it.
 *
 * @throws {RangeError} saying what is wrong in it. No part of it is shown: its password may be anywhere.
 */
export function readDatabase(text: string, from?: string): Database | undefined {
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
  if (url.username === "") throw wrong("must name a user before the host");
  if (name === "") throw wrong("must name a database after the host");
  for (const part of [url.username, url.password]) decoded(part);
  const mode = url.searchParams.get("sslmode");
  if (mode !== null && !SSL_MODES.includes(mode)) {
    throw wrong(`has an sslmode other than ${SSL_MODES.join(", ")}`);
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

/** A bucket for large texts. */
type Bucket = Pick<Parameters<typeof openS3Objects>[0], "bucket" | "endpoint" | "region"> & {
  readonly prefix: string;
};

/** Reads the address of a bucket. */
export function readBucket(text: string): Bucket | undefined {
  const url = URL.parse(text);
  if (url?.protocol !== "s3:" || !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(url.host)) return undefined;
  const { region = "", endpoint, ...others } = Object.fromEntries(url.searchParams);
  const path = url.pathname.replace(/^\//, "");
  const isRight = /^([\w.-]+\/)*[\w.-]*$/.test(path) && Object.keys(others).length === 0 &&
    url.hash === "" && url.username === "" && /^[a-z0-9-]+$/.test(region) &&
    (endpoint === undefined || isAddress(endpoint));
  if (!isRight) return undefined;
  return {
    bucket: url.host,
    prefix: path === "" || path.endsWith("/") ? path : `${path}/`,
    region,
    ...(endpoint !== undefined && { endpoint }),
  };
}
