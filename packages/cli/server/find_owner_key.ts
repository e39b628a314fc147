import { isAbsolute, join } from "@std/path";
import { dataDirectory } from "./data_directory.ts";

/** File of a data folder with the owner's key, readable only by its user. */
export const OWNER_FILE = "owner.json";

export interface OwnerFile {
  readonly key: string;
  /** Ports on which servers accepted the key, newest first. */
  readonly ports: readonly number[];
}

/** Returns the owner's key from `TARE_DATA`, or from the data folder whose server listened on this port last. */
export function findOwnerKey(
  port: number,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const { TARE_DATA: own, INIT_CWD = "." } = environment;
  try {
    if (own) return ownerKeyIn(join(isAbsolute(own) ? "" : INIT_CWD, own));
    const home = dataDirectory(environment);
    if (home === undefined) return undefined;
    const all = join(home, "tare");
    const found = [...Deno.readDirSync(all)].flatMap(({ name }) => {
      const path = join(all, name, OWNER_FILE);
      const owner = readOwnerSync(path);
      const place = owner?.ports.indexOf(port) ?? -1;
      return owner && place >= 0
        ? [{ key: owner.key, place, at: Deno.statSync(path).mtime?.getTime() ?? 0 }]
        : [];
    });
    return found.sort((one, other) => one.place - other.place || other.at - one.at)[0]?.key;
  } catch {
    // Without a key, the server's error explains what is missing.
    return undefined;
  }
}

/** Returns the owner's key of a data folder; undefined if it is missing or unreadable. */
export function ownerKeyIn(data: string): string | undefined {
  return readOwnerSync(join(data, OWNER_FILE))?.key;
}

export function lastPortIn(data: string): number | undefined {
  const port = readOwnerSync(join(data, OWNER_FILE))?.ports[0];
  return Number.isInteger(port) ? port : undefined;
}

function readOwnerSync(path: string): OwnerFile | undefined {
  try {
    return ownerIn(Deno.readTextFileSync(path));
  } catch {
    return undefined;
  }
}

export function ownerIn(text: string): OwnerFile | undefined {
  try {
    const { key, ports } = JSON.parse(text) as OwnerFile;
    return typeof key === "string" && /^tare_[\w-]{43}$/.test(key) && Array.isArray(ports)
      ? { key, ports }
      : undefined;
  } catch {
    return undefined;
  }
}
