import { Refusal } from "./define_tool.ts";

/** Bytes at the start of a file by which text is told from binary data. */
const HEAD_BYTES = 8 * 1024;

/** Random bytes give about a half; text in Latin-1 seldom more than a tenth. */
const MAX_INVALID_SHARE = 0.3;

/**
 * Opens a regular file for reading if its start looks like text: no NUL byte, and at most three characters in ten
 * that are no UTF-8. Whoever opens it closes it.
 *
 * @throws {Refusal} if it is binary; what the system throws if it cannot be opened.
 */
export async function openText(absolute: string): Promise<Deno.FsFile> {
  const file = await Deno.open(absolute);
  try {
    const head = new Uint8Array(HEAD_BYTES);
    const length = await file.read(head) ?? 0;
    if (isBinary(head.subarray(0, length))) throw new Refusal(BINARY);
    await file.seek(0, Deno.SeekMode.Start);
    return file;
  } catch (error) {
    file.close();
    throw error;
  }
}

const BINARY =
  "it is a binary file, not UTF-8 text. Inspect it with shell (file, od -c, strings); if it is text " +
  "in another encoding, convert it to a new file first, such as iconv -f UTF-16 -t UTF-8.";

function isBinary(head: Uint8Array): boolean {
  if (head.includes(0)) return true;
  const text = new TextDecoder().decode(head);
  const invalid = text.split("\uFFFD").length - 1;
  return invalid > text.length * MAX_INVALID_SHARE;
}
