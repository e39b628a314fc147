import { closeSync, fstatSync, openSync, statSync, truncateSync, writeSync } from "node:fs";

/** A file that holds room on the disk, to be given up when something must be written on a full one. */
export interface Reserve {
  /** Gives the room up. */
  give(): void;
  /** Takes the room again, but at most half of what is free: the rest is for whoever made it free. */
  take(): void;
}

const BLOCK_BYTES = 64 * 1024;

/** Opens the reserve in a file, and takes its room. */
export function openReserve(file: string, bytes: number): Reserve {
  if (bytes === 0) return { give() {}, take() {} };
  const take = () => {
    if (sizeOf(file) === bytes) return;
    const size = fill(file, 2 * bytes);
    if (size > 0) truncateSync(file, Math.floor(size / 2));
  };
  take();
  return {
    give() {
      if (sizeOf(file) > 0) truncateSync(file, 0);
    },
    take,
  };
}

/** The size of a file; 0 if there is none. */
export function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Appends until the file has this size or the disk is full, and gives its size. */
function fill(file: string, bytes: number): number {
  let size = 0;
  try {
    const opened = openSync(file, "a", 0o600);
    try {
      // Zeros would take no room where the file system compresses.
      const block = crypto.getRandomValues(new Uint8Array(BLOCK_BYTES));
      size = fstatSync(opened).size;
      while (size < bytes) size += writeSync(opened, block.subarray(0, bytes - size));
    } finally {
      closeSync(opened);
    }
  } catch {
    // The disk is full, or doesn't let itself be held: then less is, which only a deletion on a full disk may miss.
  }
  return size;
}
