import { isAbsolute, join } from "@std/path";
import { dataDirectory } from "./data_directory.ts";

/** The file of a data folder that holds its owner's key, which only that person's programs may read. */
export const OWNER_FILE = "owner.json";

/** What stands in it. */
export interface OwnerFile {
  readonly key: string;
  /** Where servers have listened that let it in, the newest first: by them commands find the right one. */
  readonly ports: readonly number[];
}

/** Returns the owner's key from `TARE_DATA`, or from the newest data folder whose server has listened on this port. */
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
    // Where it listened last, and of those the one that was started last.
    return found.sort((one, other) => one.place - other.place || other.at - one.at)[0]?.key;
  } catch {
    // Without it the server says what it wants.
    return undefined;
  }
}

/** The owner's key that is kept in a data folder. Nothing if there is none, or it may not be read. */
export function ownerKeyIn(data: string): string | undefined {
  return readOwnerSync(join(data, OWNER_FILE))?.key;
}

/** Where the newest server of a data folder has listened, if it is known. */
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

/** What the text of such a file says; nothing of one that was cut off. */
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
