import type { ToolContext } from "@tare/messages";

/** A run of whole lines of a file. */
export interface TextBlock {
  /** Ends with a newline, but for a file's last block. Valid until the next block is asked for. */
  readonly bytes: Uint8Array;
  /** Bytes left out at the end of the block's last line. If not 0, the block is that one line, without its newline. */
  readonly droppedBytes: number;
}

/** Lines of up to so many bytes are kept whole. */
export const MAX_LINE_BYTES: number = 256 * 1024;
const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 10;

/**
 * Reads a file from where it stands to its end, in blocks of whole lines and in constant memory. Of a line far over
 * {@linkcode MAX_LINE_BYTES} the end is dropped.
 */
export async function* textBlocks(file: Deno.FsFile, context: ToolContext): AsyncGenerator<TextBlock> {
  const buffer = new Uint8Array(MAX_LINE_BYTES + CHUNK_BYTES);
  /** Bytes at the front of the buffer that were not handed out yet. */
  let held = 0;
  /** Bytes dropped of the line that is being read. */
  let dropped = 0;
  const shift = (from: number, to: number) => {
    buffer.copyWithin(0, from, to);
    held = to - from;
  };
  while (true) {
    context.signal.throwIfAborted();
    const read = await file.read(buffer.subarray(held, held + CHUNK_BYTES));
    if (read === null) break;
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
      const kept = characterStart(buffer, MAX_LINE_BYTES);
      dropped = held - kept;
      held = kept;
    }
  }
  if (held > 0) yield { bytes: buffer.subarray(0, held), droppedBytes: dropped };
}

/** The nearest index at or before `at` where a UTF-8 character starts. */
function characterStart(bytes: Uint8Array, at: number): number {
  let start = at;
  while (start > at - 4 && (bytes[start]! & 0xC0) === 0x80) start--;
  return start;
}
