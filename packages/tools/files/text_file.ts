import type { Stats } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import type { ToolContext } from "@tare/messages";
import { ToolRefusal } from "../define_tool.ts";
import { openAt, readAt } from "./resolve_in_workspace.ts";

const HEAD_BYTES = 8 * 1024;

const MAX_INVALID_SHARE = 0.3;

/**
 * Opens a regular file if its first bytes look like text: no NUL, and at most 30 % invalid UTF-8. The caller
 * closes it.
 *
 * @throws {ToolRefusal} if it is binary; system errors if it can't be opened.
 */
export async function openText(absolute: string): Promise<FileHandle> {
  const file = await openAt(absolute);
  try {
    const head = new Uint8Array(HEAD_BYTES);
    const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0);
    if (isBinary(head.subarray(0, bytesRead))) throw new ToolRefusal(BINARY);
    return file;
  } catch (error) {
    await file.close();
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

/** Whole lines of a file. */
export interface TextBlock {
  /** Bytes ending with a newline, except in the last block. Valid until the next block is requested. */
  readonly bytes: Uint8Array;
  /** Bytes omitted at the end of the block's last line. If not 0, the block is that line, without newline. */
  readonly droppedBytes: number;
}

/** Maximum length of whole lines, in bytes. */
export const MAX_LINE_BYTES: number = 256 * 1024;
const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 10;

/**
 * Yields a file in blocks of whole lines; the end of a line much longer than {@linkcode MAX_LINE_BYTES} is
 * dropped.
 */
export async function* textBlocks(file: FileHandle, context: ToolContext): AsyncGenerator<TextBlock> {
  let buffer = new Uint8Array(CHUNK_BYTES);
  let held = 0;
  let position = 0;
  let dropped = 0;
  const shift = (from: number, to: number) => {
    buffer.copyWithin(0, from, to);
    held = to - from;
  };
  while (true) {
    context.signal.throwIfAborted();
    if (buffer.length < held + CHUNK_BYTES) {
      const larger = new Uint8Array(Math.min(2 * (held + CHUNK_BYTES), MAX_LINE_BYTES + CHUNK_BYTES));
      larger.set(buffer.subarray(0, held));
      buffer = larger;
    }
    const { bytesRead: read } = await file.read(buffer, held, CHUNK_BYTES, position);
    if (read === 0) break;
    position += read;
    context.progress();
    let end = held + read;
    if (dropped > 0) {
      const newline = buffer.subarray(0, end).indexOf(NEWLINE, held);
      if (newline < 0) {
        dropped += read;
        continue;
      }
      yield { bytes: buffer.subarray(0, held), droppedBytes: dropped + newline - held };
      dropped = 0;
      shift(newline + 1, end);
      end = held;
    }
    const newline = buffer.subarray(0, end).lastIndexOf(NEWLINE);
    if (newline >= 0) {
      yield { bytes: buffer.subarray(0, newline + 1), droppedBytes: 0 };
      shift(newline + 1, end);
    } else {
      held = end;
    }
    if (held > MAX_LINE_BYTES) {
      const start = characterStart(buffer, MAX_LINE_BYTES);
      dropped = held - start;
      held = start;
    }
  }
  if (held > 0) yield { bytes: buffer.subarray(0, held), droppedBytes: dropped };
}

/**
 * Yields {@linkcode textBlocks}; a small file is one block, which is faster. @throws {ToolRefusal} if it is
 * binary.
 */
export async function* readText(
  absolute: string,
  { size }: Pick<Stats, "size">,
  context: ToolContext,
): AsyncGenerator<TextBlock> {
  if (size > 0 && size <= CHUNK_BYTES) {
    const bytes = await readAt(absolute);
    if (isBinary(bytes.subarray(0, HEAD_BYTES))) throw new ToolRefusal(BINARY);
    context.progress();
    yield { bytes, droppedBytes: 0 };
    return;
  }
  const file = await openText(absolute);
  try {
    yield* textBlocks(file, context);
  } finally {
    await file.close();
  }
}

function characterStart(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > at - 4 && (bytes[start]! & 0xC0) === 0x80) start--;
  return start;
}
