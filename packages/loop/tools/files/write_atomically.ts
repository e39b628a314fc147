import { constants } from "node:fs";
import { copyFile, type FileHandle, mkdir, open, readdir, rename, rm, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { systemCode } from "../define_tool.ts";
import { assertOpenAt, type Folder, inFolder, inNewFolder, openAt } from "./handles.ts";
import { temporaryName } from "./resolve_in_workspace.ts";

/** Folder of the server's own in which files are written before they take their place. */
const STAGING = "staged";

/**
 * Writes a whole file so that readers see either the old bytes or the new ones, also after a crash: the bytes go to a
 * new file, to disk, and then take its name in its folder, which is verified once it is open. Missing folders are made.
 *
 * With a folder of the server's own, no other process reaches the new file before it is in place; if that folder is on
 * another file system, the new file is copied to the workspace first, under a random name.
 *
 * @param mode Permission bits of the file that is replaced, which the new one gets too. Default: there is none, and
 *   the new file gets what the system gives new files.
 * @param isForced Whether it replaces a file too that may not be written to. Default: it doesn't.
 * @param temporary Name of the new file until then. Default: a random one.
 * @param own The server's own folder. Default: there is none, and the new file is written next to the old one.
 * @param confirm Called right before the file takes its name, which it doesn't if this throws.
 */
export async function writeAtomically(
  absolute: string,
  bytes: Uint8Array,
  { mode, isForced = false, temporary = randomName(), own, confirm }: {
    readonly mode?: number | undefined;
    readonly isForced?: boolean;
    readonly temporary?: string | undefined;
    readonly own?: string | undefined;
    readonly confirm?: (() => void) | undefined;
  } = {},
): Promise<void> {
  // Replacing a file takes no permission to write to it; whoever withheld that meant it.
  if (mode !== undefined && !isForced) await (await openAt(absolute, constants.O_WRONLY)).close();
  const bits = mode === undefined ? undefined : mode & 0o7777;
  await inNewFolder(dirname(absolute), async (folder) => {
    const place = async (file: NewFile) => {
      folder.check();
      confirm?.();
      await file.moveTo(folder.at(basename(absolute)));
      file.check(absolute);
    };
    if (own === undefined) {
      return await onNewFile(createBeside(folder, absolute, { name: temporary, bits }), async (file) => {
        await file.write(bytes, bits);
        await place(file);
      });
    }
    const copyName = randomName();
    await onNewFile(
      createStaged(join(own, STAGING), { name: `${temporary}-${copyName}`, bits }),
      async (staged) => {
        await staged.write(bytes, bits);
        try {
          return await place(staged);
        } catch (error) {
          if (systemCode(error) !== "EXDEV") throw error;
        }
        await onNewFile(
          copyInto(folder, join(dirname(absolute), copyName), { from: staged.path, bits }),
          place,
        );
      },
    );
  });
}

/** Works on a new file, and removes it at the end unless it was moved. */
async function onNewFile(created: Promise<NewFile>, work: (file: NewFile) => Promise<void>): Promise<void> {
  const file = await created;
  try {
    await work(file);
  } finally {
    await file.close();
  }
}

/** Removes what {@linkcode writeAtomically} wrote for this file under a temporary name when its process was killed. */
export async function removeTemporary(
  absolute: string,
  { temporary, own }: { readonly temporary: string; readonly own: string | undefined },
): Promise<void> {
  const beside = [temporary];
  for (const name of own === undefined ? [] : await readdir(join(own, STAGING)).catch(missing) ?? []) {
    if (!name.startsWith(`${temporary}-`)) continue;
    beside.push(name.slice(temporary.length + 1));
    await rm(join(own!, STAGING, name), { force: true });
  }
  await inFolder(dirname(absolute), async (folder) => {
    for (const name of beside) await unlink(folder.at(name)).catch(missing);
  });
}

/** A file that is to replace another one. */
interface NewFile {
  readonly path: string;
  readonly write: (bytes: Uint8Array, bits: number | undefined) => Promise<void>;
  /** Gives it this place. */
  readonly moveTo: (path: string) => Promise<void>;
  /** Throws unless it is at this path. @throws {Refusal} */
  readonly check: (absolute: string) => void;
  /** Closes it, and removes it unless it was moved. */
  readonly close: () => Promise<void>;
}

function newFile(path: string, file: FileHandle): NewFile {
  let isMoved = false;
  return {
    path,
    check: (absolute) => assertOpenAt(file.fd, absolute),
    async write(bytes, bits) {
      await file.writeFile(bytes);
      // A new file has fewer permissions than requested, by the process's mask.
      if (bits !== undefined) await file.chmod(bits);
      await file.sync();
    },
    async moveTo(to) {
      await rename(path, to);
      isMoved = true;
    },
    async close() {
      await file.close();
      if (!isMoved) await unlink(path).catch(() => {}); // The first error is the one to report.
    },
  };
}

/** Creates the new file next to the old one. Another process may have taken the name: it is another one then. */
async function createBeside(
  folder: Folder,
  absolute: string,
  { name, bits }: { readonly name: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = folder.at(name);
  const file = await create(path, bits).catch((error) => {
    if (systemCode(error) !== "EEXIST") throw error;
  });
  if (!file) return await createBeside(folder, absolute, { name: randomName(), bits });
  return await verified(path, file, join(dirname(absolute), name));
}

async function createStaged(
  folder: string,
  { name, bits }: { readonly name: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = join(folder, name);
  const file = await create(path, bits).catch(async (error) => {
    if (systemCode(error) !== "ENOENT") throw error;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return await create(path, bits);
  });
  return newFile(path, file);
}

/** Copies a file into another file system. */
async function copyInto(
  folder: Folder,
  absolute: string,
  { from, bits }: { readonly from: string; readonly bits: number | undefined },
): Promise<NewFile> {
  const path = folder.at(basename(absolute));
  await copyFile(from, path);
  const file = await openAt(absolute, constants.O_WRONLY).catch(async (error) => {
    await unlink(path).catch(missing);
    throw error;
  });
  if (bits !== undefined) await file.chmod(bits);
  await file.sync();
  return newFile(path, file);
}

async function verified(path: string, file: FileHandle, absolute: string): Promise<NewFile> {
  try {
    assertOpenAt(file.fd, absolute);
  } catch (error) {
    await file.close();
    await unlink(path).catch(missing);
    throw error;
  }
  return newFile(path, file);
}

/** Creates a file that others can't read half-written if they can't read the one that it replaces. */
function create(path: string, bits = 0o666): Promise<FileHandle> {
  return open(path, "wx", bits);
}

function randomName(): string {
  return temporaryName(crypto.randomUUID());
}

/** Ignores that something isn't there. */
function missing(error: unknown): undefined {
  if (!["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) throw error;
}
