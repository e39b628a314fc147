import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join, resolve } from "@std/path";
import process from "node:process";
import { type Archive, archiveRef } from "@tare/prune";
import { bytesFromText, isArchiveRef, textFromBytes } from "@tare/prune/internal";

/**
 * Opens an archive that stores each text as a file named after its reference. Creates the folder if necessary, readable
 * by its owner only.
 *
 * Files are written under a temporary name, flushed and renamed: once `put` has resolved, the text survives a crash,
 * and remains of an interrupted write are never read. `get` throws if a file's content doesn't match its name; putting
 * the text again restores it.
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
 * @throws {Error} if the folder can't be created.
 */
export async function openFileArchive(directory: string): Promise<Archive> {
  const folder = resolve(directory);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const pathOf = (ref: string) => join(folder, `${ref}.txt`);
  return {
    async put(content) {
      const ref = await archiveRef(content);
      const text = await read(pathOf(ref));
      if (text === content) return ref;
      if (text !== undefined && await archiveRef(text) === ref) {
        throw new Error(`Cannot archive a text under ${ref}: it contains other content`);
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
          `Cannot read the archived text ${ref}: ${path} is damaged, its hash doesn't match`,
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
  // The folder has the new name and must be flushed too. Windows can't, and needn't.
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
