import { SEPARATOR } from "@std/path";

/** So much of a file is read, in bytes. */
const MOST_OF_A_FILE = 32 * 1024;

/** A file in full, its beginning, or why it isn't. */
export type FoundFile = { readonly bytes: Uint8Array; readonly size: number } | { readonly why: string };

/**
 * Reads the beginning of a file. Links of the person lead where he likes; others to a Markdown file in the folder
 * `within`, and not in the one that is hidden. What was opened must be what lies there then.
 */
export async function readFound(
  path: string,
  { within, hidden }: { readonly within?: string | undefined; readonly hidden?: string | undefined },
): Promise<FoundFile | undefined> {
  try {
    const real = await Deno.realPath(path);
    if (within !== undefined && real !== path) {
      const isTold = isFollowed(real, within) && (hidden === undefined || !isIn(real, hidden));
      if (!isTold) return { why: "it is a link to what isn't a Markdown file of this project" };
    }
    const there = await Deno.lstat(real);
    if (!there.isFile) return { why: "it isn't a file" };
    using file = await Deno.open(real, { read: true });
    const { size, ino, dev } = await file.stat();
    const isSame = ino === there.ino && dev === there.dev && await Deno.realPath(path) === real;
    if (!isSame) return { why: "it has come to lead elsewhere while it was read" };
    return { bytes: await readBeginning(file, MOST_OF_A_FILE), size };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    return { why: error instanceof Deno.errors.NotCapable ? UNKNOWN_AT_START : (error as Error).message };
  }
}

const UNKNOWN_AT_START = "it leads to where the server couldn't know at its start that it would have to read";

async function readBeginning(file: Deno.FsFile, most: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(most);
  let length = 0;
  while (length < most) {
    const read = await file.read(bytes.subarray(length));
    if (read === null) break;
    length += read;
  }
  return bytes.subarray(0, length);
}

/** Whether a path is a folder's own, or leads into it. */
export function isIn(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(SEPARATOR) ? folder : folder + SEPARATOR);
}

/** Whether a link of the project may lead there. */
export function isFollowed(path: string, within: string): boolean {
  return isIn(path, within) && /\.md$/i.test(path);
}
