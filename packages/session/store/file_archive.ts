import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "@std/path";
import process from "node:process";
import { type Archive, archiveRef } from "@tare/prune";
import { bytesFromText, isArchiveRef, textFromBytes } from "@tare/prune/internal";

/**
 * Opens an archive that keeps each text in a file of its own, named after the text's reference. The folder is made
 * if it isn't there, readable by its owner alone.
 *
 * A file is written under a temporary name, flushed and renamed, so it is there as a whole or not at all, and once
 * `put` has resolved it survives a crash. What a crashed write leaves is never read. A file that doesn't
 * hold what its name says makes `get` throw; putting its text again mends it.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { openFileArchive } from "@tare/session";
 *
 * const archive = await openFileArchive(await Deno.makeTempDir());
 * const ref = await archive.put("a long result");
 * assertEquals(await archive.get(ref), "a long result");
 * ```
 *
 * @throws {Error} if the folder can't be made.
 */
export async function openFileArchive(directory: string): Promise<Archive> {
  const folder = resolve(directory);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const pathOf = (ref: string) => join(folder, `${ref}.txt`);
  return {
    async put(content) {
      const ref = await archiveRef(content);
      const kept = await read(pathOf(ref));
      if (kept === content) return ref;
      if (kept !== undefined && await archiveRef(kept) === ref) {
        throw new Error(`Cannot archive a text under ${ref}: other content stands there`);
      }
      await writeWhole(bytesFromText(content), { folder, path: pathOf(ref) });
      return ref;
    },
    async get(ref) {
      if (!isArchiveRef(ref)) return undefined;
      const path = pathOf(ref);
      const content = await read(path);
      if (content !== undefined && await archiveRef(content) !== ref) {
        throw new Error(
          `Cannot read the archived text ${ref}: ${path} was damaged, its content has another hash`,
        );
      }
      return content;
    },
  };
}

async function read(path: string): Promise<string | undefined> {
  try {
    return textFromBytes(new Uint8Array(await readFile(path)));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function writeWhole(
  bytes: Uint8Array,
  { folder, path }: { readonly folder: string; readonly path: string },
): Promise<void> {
  const temporary = join(folder, `${crypto.randomUUID()}.tmp`);
  try {
    await writeAndFlush(temporary, bytes);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  // The new name stands in the folder, which must be flushed as well. Windows can't, and has no need to.
  if (process.platform === "win32") return;
  const opened = await open(folder);
  await opened.sync().finally(() => opened.close());
}

async function writeAndFlush(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}
