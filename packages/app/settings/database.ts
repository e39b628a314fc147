import { isAbsolute } from "@std/path";
import type { openS3Objects } from "@tare/session/s3";
import { fromFolder, isAddress } from "./option.ts";

interface Database {
  /** Secret: the address may contain a password. */
  readonly url: string;
  /** Host and name, for messages. */
  readonly label: string;
  /** Host and port, or a socket's path. */
  readonly at: { readonly host: string } | { readonly socket: string };
  /** Files of the address and of certificates. */
  readonly files: readonly string[];
}

const SCHEME = /^postgres(ql)?:\/\//;

const PORT = "5432";

const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"];

/** Parameters with paths of certificates and keys. */
const SSL_FILES = ["sslrootcert", "sslcert", "sslkey"];

/**
 * Reads a database's address, or the file that contains it.
 *
 * @throws {RangeError} if it is invalid. The error quotes no part of it: any may be a password.
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
    // The system's message would contain the path, which may be a mistyped address.
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
      "is not a valid address. In a password encode # % / : ? @ as %23 %25 %2F %3A %3F %40",
    );
  }
  const host = decoded(url.hostname);
  const name = decoded(url.pathname.slice(1));
  if (host === "" || host.includes(",")) {
    throw wrong("must contain one host, or a socket's folder such as %2Fvar%2Frun%2Fpostgresql");
  }
  if (url.username === "") throw wrong("must contain a user before the host");
  if (name === "") throw wrong("must contain a database name after the host");
  for (const part of [url.username, url.password]) decoded(part);
  const mode = url.searchParams.get("sslmode");
  if (mode !== null && !SSL_MODES.includes(mode)) {
    throw wrong(`has an invalid sslmode. Use one of ${SSL_MODES.join(", ")}`);
  }
  const files = SSL_FILES.flatMap((name) => url.searchParams.get(name) ?? []);
  if (!files.every(isAbsolute)) {
    throw wrong(`has a relative path in one of ${SSL_FILES.join(", ")}. Use absolute paths`);
  }
  const port = url.port || PORT;
  const isSocket = host.startsWith("/");
  return {
    url: text,
    label: `${name} at ${isSocket ? host : `${host}:${port}`}`,
    at: isSocket ? { socket: `${host}/.s.PGSQL.${port}` } : { host: `${host}:${port}` },
    files,
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw wrong("is not a valid address. Encode % as %25", { cause });
  }
}

function wrong(state: string, options?: ErrorOptions): RangeError {
  return new RangeError(`Cannot start: TARE_DATABASE ${state}.`, options);
}

type Bucket = Pick<Parameters<typeof openS3Objects>[0], "bucket" | "endpoint" | "region"> & {
  readonly prefix: string;
};

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
