import { join } from "@std/path";
import type { AgentEntry, Environment, FileFormat } from "./agents.ts";
import { entryIn } from "./file_entries.ts";

/** An address that an agent's own settings name for a provider. */
export interface OwnAddress {
  /** What is asked there: chat completions and responses, or Messages. */
  readonly protocol: "chat" | "messages";
  readonly address: string;
  /** The file or variable that names it. */
  readonly place: string;
  /** Whether it outranks what one process is told, so that the agent can't be redirected. */
  readonly isFixed?: boolean;
}

/** A file that may name addresses. */
export interface SettingsFile {
  readonly path: string;
  readonly format: FileFormat;
  readonly isFixed?: boolean;
}

/** Reads a file's text; `null` if there is none. */
export type ReadText = (path: string) => string | null;

/**
 * Returns the addresses that an agent's settings name, for each protocol the one that outranks the others. Addresses of
 * servers at which the agent was put by `tare wrap` don't count: `read` gives the file from before that.
 *
 * @throws {Error} if one can't be read.
 */
export function ownAddresses(
  { title, own }: Pick<AgentEntry, "title" | "own">,
  { environment, folder, read }: {
    readonly environment: Environment;
    readonly folder: string;
    readonly read: ReadText;
  },
): readonly OwnAddress[] {
  const found = own?.(environment, { folder, read }) ?? [];
  return (["chat", "messages"] as const).flatMap((protocol) => {
    const first = found.find((one) => one.protocol === protocol);
    if (!first) return [];
    const address = withVariables(first.address, environment);
    if (URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)) return [{ ...first, address }];
    throw new Error(
      `Cannot put ${title} behind a server: ${first.place} names ${first.address}, which is no address of HTTP. ` +
        "Write the address itself there.",
    );
  });
}

/** A text with the variables that opencode, Kilo Code (`{env:NAME}`) and OpenClaw (`${NAME}`) put into it. */
function withVariables(text: string, environment: Environment): string {
  return text.replaceAll(
    /\{env:(\w+)\}|\$\{(\w+)\}/g,
    (whole, one, other) => environment[one ?? other] ?? whole,
  );
}

/** Returns what files name at these places, those of the first file first. */
export function addressesIn(
  files: readonly SettingsFile[],
  places: Readonly<Partial<Record<OwnAddress["protocol"], readonly string[]>>>,
  read: ReadText,
): readonly OwnAddress[] {
  return files.flatMap(({ path, format, isFixed }) => {
    const text = read(path);
    if (text === null) return [];
    return Object.entries(places).flatMap(([protocol, place]) => {
      const address = entryOf(path, text, { format, place });
      return typeof address === "string" && address !== ""
        ? [{
          protocol: protocol as OwnAddress["protocol"],
          address,
          place: path,
          ...(isFixed && { isFixed }),
        }]
        : [];
    });
  });
}

function entryOf(
  path: string,
  text: string,
  { format, place }: { readonly format: FileFormat; readonly place: readonly string[] },
): unknown {
  try {
    return entryIn(text, format, place);
  } catch (error) {
    throw new Error(`Cannot read ${path}: ${(error as Error).message}. Mend it, and try again.`);
  }
}

/** Returns files of these names in a folder and those above it, the nearest first. */
export function filesAbove(folder: string, names: readonly string[]): readonly string[] {
  const parent = join(folder, "..");
  return [
    ...names.map((name) => join(folder, name)),
    ...(parent === folder ? [] : filesAbove(parent, names)),
  ];
}

/** Whether two addresses are the same provider's: both protocols may stand below `/v1`. */
export function isSameAddress(one: string, other: string): boolean {
  const bare = (address: string) => address.replace(/(\/v1)?\/*$/, "");
  return bare(one) === bare(other);
}
