import { checkGiven } from "@tare/messages";
import { join, resolve } from "@std/path";
import { type Archive, archiveRef, bytesFromText, isArchiveRef, textFromBytes } from "@tare/prune";

/**
 * Opens an archive that keeps each text in a file of its own, named after the text's reference. The folder is made
 * if it isn't there, readable by its owner alone.
 *
 * A file is written under a temporary name, flushed and renamed, so it is there as a whole or not at all, and once
 * `put` has resolved it survives a crash. What a crashed write leaves is never read. A file that doesn't
 * hold what its name says makes `get` throw; putting its text again mends it.
 *
 * @throws {Error} if the folder can't be made.
 */
export async function openFileArchive(directory: string): Promise<Archive> {
  checkGiven("openFileArchive()", { directory }, { directory: "string" });
  const folder = resolve(directory);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
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
    async delete(ref) {
      if (!isArchiveRef(ref)) return;
      await ifFound(Deno.remove(pathOf(ref)));
    },
  };
}

async function read(path: string): Promise<string | undefined> {
  const bytes = await ifFound(Deno.readFile(path));
  return bytes && textFromBytes(bytes);
}

async function ifFound<T>(outcome: Promise<T>): Promise<T | undefined> {
  try {
    return await outcome;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function writeWhole(
  bytes: Uint8Array,
  { folder, path }: { readonly folder: string; readonly path: string },
): Promise<void> {
  const temporary = await Deno.makeTempFile({ dir: folder, suffix: ".tmp" });
  try {
    await writeAndFlush(temporary, bytes);
    await Deno.rename(temporary, path);
  } catch (error) {
    await ifFound(Deno.remove(temporary));
    throw error;
  }
  // The new name stands in the folder, which must be flushed as well. Windows can't, and has no need to.
  if (Deno.build.os === "windows") return;
  using opened = await Deno.open(folder);
  await opened.sync();
}

async function writeAndFlush(path: string, bytes: Uint8Array): Promise<void> {
  using file = await Deno.open(path, { write: true });
  for (let written = 0; written < bytes.length;) written += await file.write(bytes.subarray(written));
  await file.sync();
}
