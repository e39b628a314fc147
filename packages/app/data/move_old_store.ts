import { resolve } from "@std/path";
import { openStore } from "@tare/conversation/sqlite";
import { STORE_FILE } from "./data_folder.ts";
import { isFile } from "../settings/option.ts";

/**
 * Moves the sessions of an old data folder into the new one, if that has none, and says in a line what it did.
 * Whatever moment it is cut off in, they are whole in one of the two, and in both at worst.
 *
 * @throws {StoreError} if the old file is damaged, or another process has it open.
 */
export async function moveOldStore(from: string, to: string): Promise<string | undefined> {
  const [old, moved] = [resolve(from, STORE_FILE), resolve(to, STORE_FILE)];
  if (!isFile(old) && !isFile(`${old}-wal`)) return undefined;
  if (isFile(moved) || isFile(`${moved}-wal`)) {
    return `Sessions of an earlier version are left in ${
      resolve(from)
    }: TARE_DATA with that folder shows them.`;
  }
  // Nobody else has it open then, and the one file holds all.
  await (await openStore(old)).close();
  await Deno.mkdir(to, { recursive: true, mode: 0o700 });
  const where = `from ${resolve(from)} to ${resolve(to)}`;
  try {
    await Deno.rename(old, moved);
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "EXDEV") throw error;
    await copyWhole(old, moved);
    await Deno.rename(old, `${old}.moved`);
    return `Sessions copied ${where}, which is another disk; ${old}.moved is no longer needed.`;
  }
  await Deno.remove(`${old}.lock`);
  // Other things may be in it.
  await Deno.remove(from).catch(() => {});
  return `Sessions moved ${where}.`;
}

/** A file is there under its name once all of it is on the disk. */
async function copyWhole(from: string, to: string): Promise<void> {
  const part = `${to}.part`;
  await Deno.copyFile(from, part);
  {
    using file = await Deno.open(part, { write: true });
    await file.sync();
  }
  await Deno.rename(part, to);
}
