import { realpath } from "node:fs/promises";
import { isDenied, isMissing } from "../define_tool.ts";
import { openAt } from "../files/resolve_in_workspace.ts";
import { isWithin } from "../path_within.ts";

/** So much of a file is read, in bytes. */
const MOST_OF_A_FILE = 32 * 1024;

/** A file in full, its beginning, or why it isn't. */
export type FoundFile = { readonly bytes: Uint8Array; readonly size: number } | { readonly why: string };

/** Reads the beginning of a file. The user's links are followed; a project's only to its own Markdown files. */
export async function readFound(
  path: string,
  { within, hidden }: { readonly within?: string | undefined; readonly hidden?: string | undefined },
): Promise<FoundFile | undefined> {
  try {
    const real = await realpath(path);
    if (within !== undefined && real !== path) {
      const isTold = isFollowed(real, within) && (hidden === undefined || !isWithin(real, hidden));
      if (!isTold) return { why: "it is a link to what isn't a Markdown file of this project" };
    }
    const file = await openAt(real);
    try {
      const info = await file.stat();
      if (!info.isFile()) return { why: "it isn't a file" };
      return { bytes: await readBeginning(file, MOST_OF_A_FILE), size: info.size };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return undefined;
    return { why: isDenied(error) ? UNKNOWN_AT_START : (error as Error).message };
  }
}

const UNKNOWN_AT_START = "it leads to where the server couldn't know at its start that it would have to read";

async function readBeginning(
  file: Awaited<ReturnType<typeof openAt>>,
  most: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(most);
  let length = 0;
  while (length < most) {
    const { bytesRead } = await file.read(bytes, length, most - length, length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.subarray(0, length);
}

/** Whether a link of the project may lead there. */
export function isFollowed(path: string, within: string): boolean {
  return isWithin(path, within) && /\.md$/i.test(path);
}
