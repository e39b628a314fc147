import { readFileSync, statSync } from "node:fs";

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** The first four bytes of a log whose checksums read words as little-endian; with big-endian ones it is one more. */
const MAGIC = 0x377f0682;

/** Longer logs aren't looked through. They hold more than one very large write. */
const MAX_BYTES = 64 * 2 ** 20;

/** Where a log is damaged: its `frame` (from 1) of `frames`. 0 is the header. */
export interface LogDamage {
  readonly frame: number;
  readonly frames: number;
}

/**
 * Finds what SQLite doesn't tell: it reads a write-ahead log up to the first frame whose checksum is wrong, and takes
 * whatever stands behind for the rest of an earlier log. It was a damage if a commit of the same log stands behind.
 * Format and checksums: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
 *
 * @returns Nothing if the log is whole, empty or not there.
 */
export function damageOfLog(file: string): LogDamage | undefined {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
  if (size <= HEADER_BYTES || size > MAX_BYTES) return undefined;
  const bytes = readFileSync(file);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const magic = view.getUint32(0);
  const pageBytes = view.getUint32(8);
  const sum = checksum(view, (magic & 1) === 0);
  const isHeader = (magic & ~1) === MAGIC && pageBytes >= 512 && sum.add(0, 24) && sum.isAt(24);
  if (!isHeader) return { frame: 0, frames: Math.floor(bytes.length / FRAME_HEADER_BYTES) };
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const frames = Math.floor((bytes.length - HEADER_BYTES) / frameBytes);
  const startOf = (frame: number) => HEADER_BYTES + (frame - 1) * frameBytes;
  const isOfLog = (at: number) =>
    view.getUint32(at + 8) === view.getUint32(16) && view.getUint32(at + 12) === view.getUint32(20);
  let frame = 1;
  for (; frame <= frames; frame++) {
    const at = startOf(frame);
    sum.add(at, 8);
    sum.add(at + FRAME_HEADER_BYTES, pageBytes);
    if (!isOfLog(at) || !sum.isAt(at + 16)) break;
  }
  for (let later = frame + 1; later <= frames; later++) {
    const at = startOf(later);
    const isCommit = view.getUint32(at + 4) !== 0;
    if (isCommit && isOfLog(at)) return { frame, frames };
  }
  return undefined;
}

/** The running checksum of a log. */
function checksum(view: DataView, isLittleEndian: boolean) {
  let [first, second] = [0, 0];
  return {
    /** Adds bytes, a multiple of eight. */
    add(at: number, length: number): true {
      for (let word = at; word < at + length; word += 8) {
        first = (first + view.getUint32(word, isLittleEndian) + second) >>> 0;
        second = (second + view.getUint32(word + 4, isLittleEndian) + first) >>> 0;
      }
      return true;
    },
    isAt: (at: number) => first === view.getUint32(at) && second === view.getUint32(at + 4),
  };
}
