import { Keys } from "@tare/session";
import { join } from "@std/path";
import { OWNER_FILE, type OwnerFile, ownerIn } from "./find_owner_key.ts";

const MAX_PORTS = 16;

/** Returns a data folder's owner key, created at the first start. @throws {RangeError} if it can't be written. */
export async function ownerKey(data: string): Promise<string> {
  const path = join(data, OWNER_FILE);
  const known = await readOwner(path);
  if (known) return known.key;
  const key = Keys.newSecret();
  const write = () =>
    Deno.writeTextFile(path, JSON.stringify({ key, ports: [] } satisfies OwnerFile), {
      createNew: true,
      mode: 0o600,
    });
  try {
    await write().catch(async (error) => {
      if (!(error instanceof Deno.errors.AlreadyExists) || await readWritten(path)) throw error;
      await Deno.remove(path);
      await write();
    });
    return key;
  } catch (cause) {
    const theirs = await readOwner(path);
    if (theirs) return theirs.key;
    throw new RangeError(
      `Cannot write the owner's key to ${path} (${(cause as Error).message}). ` +
        "Free some space, or set TARE_TOKEN.",
      { cause },
    );
  }
}

/** Records a port on which a server accepts this data folder's key. */
export async function noteOwnerPort(data: string, port: number): Promise<void> {
  const path = join(data, OWNER_FILE);
  const known = await readOwner(path);
  if (!known) return;
  const now = new Date();
  if (known.ports[0] === port) return await Deno.utime(path, now, now);
  const ports = [port, ...known.ports.filter((other) => other !== port)].slice(0, MAX_PORTS);
  const part = `${path}.${crypto.randomUUID()}.part`;
  try {
    await Deno.writeTextFile(part, JSON.stringify({ ...known, ports }), { createNew: true, mode: 0o600 });
    await Deno.rename(part, path);
  } catch (error) {
    await Deno.remove(part).catch(() => {});
    throw error;
  }
}

/** Most reads of a file that another process may be writing. */
const MAX_CHECKS = 20;
const CHECK_MS = 50;

/** Reads a file that another process may still be writing; undefined if none does. */
async function readWritten(path: string): Promise<OwnerFile | undefined> {
  for (let looks = 1;; looks++) {
    const owner = await readOwner(path);
    if (owner || looks === MAX_CHECKS) return owner;
    await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  }
}

async function readOwner(path: string): Promise<OwnerFile | undefined> {
  const text = await Deno.readTextFile(path).catch(() => "");
  return ownerIn(text);
}
