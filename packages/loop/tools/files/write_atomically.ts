import { constants } from "node:fs";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * Writes a whole file so that whoever reads it sees either the old bytes or the new ones, also after a crash: the
 * bytes go to a new file beside it, to disk, and then take its name. Folders that are missing are made.
 *
 * @param mode permission bits of the file that is replaced, which the new one gets too. Default: there is none, and
 *   the new file gets what the system gives new files.
 * @param confirm called right before the file takes its name, which it doesn't if this throws.
 */
export async function writeAtomically(
  absolute: string,
  bytes: Uint8Array,
  { mode, confirm }: { readonly mode?: number | undefined; readonly confirm?: (() => void) | undefined } = {},
): Promise<void> {
  // Taking a file's place takes no permission to write to it; whoever withheld that meant it.
  if (mode !== undefined) await (await open(absolute, constants.O_WRONLY)).close();
  const folder = dirname(absolute);
  await mkdir(folder, { recursive: true });
  const temporary = join(folder, `.tare-${crypto.randomUUID()}.tmp`);
  try {
    await writeNew(temporary, bytes);
    if (mode !== undefined) await chmod(temporary, mode & 0o7777);
    confirm?.();
    await rename(temporary, absolute);
  } catch (error) {
    await rm(temporary).catch(() => {}); // It may not have been made; the first error is the one to tell.
    throw error;
  }
}

async function writeNew(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "wx");
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

const last = new Map<string, Promise<unknown>>();

/**
 * Runs actions with the same key one after the other, in the order in which they were handed in. Calls of one step
 * run in parallel, and two edits of one file must not both start from the same text.
 */
export async function inTurn<T>(key: string, action: () => Promise<T>): Promise<T> {
  const before = last.get(key) ?? Promise.resolve();
  const run = before.then(action, action);
  last.set(key, run);
  try {
    return await run;
  } finally {
    if (last.get(key) === run) last.delete(key);
  }
}
