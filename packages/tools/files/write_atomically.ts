import { dirname, join } from "@std/path";

/**
 * Writes a whole file so that whoever reads it sees either the old bytes or the new ones, also after a crash: the
 * bytes go to a new file beside it, to disk, and then take its name. Folders that are missing are made.
 *
 * @param mode permission bits of the file that is replaced, which the new one gets too. Default: there is none, and
 *   the new file gets what the system gives new files.
 */
export async function writeAtomically(
  absolute: string,
  bytes: Uint8Array,
  { mode }: { readonly mode?: number | null | undefined } = {},
): Promise<void> {
  // Taking a file's place takes no permission to write to it; whoever withheld that meant it.
  if (typeof mode === "number") (await Deno.open(absolute, { write: true })).close();
  const folder = dirname(absolute);
  await Deno.mkdir(folder, { recursive: true });
  const temporary = join(folder, `.tare-${crypto.randomUUID()}.tmp`);
  try {
    await writeNew(temporary, bytes);
    if (typeof mode === "number") await Deno.chmod(temporary, mode & 0o7777);
    await Deno.rename(temporary, absolute);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {}); // It may not have been made; the first error is the one to tell.
    throw error;
  }
}

async function writeNew(path: string, bytes: Uint8Array): Promise<void> {
  using file = await Deno.open(path, { write: true, createNew: true });
  let written = 0;
  while (written < bytes.length) written += await file.write(bytes.subarray(written));
  await file.sync();
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
