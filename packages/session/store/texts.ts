import { bytesFromText, textFromBytes } from "@tare/prune/internal";
import { createHash } from "node:crypto";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";

/** The shortest output that zlib reserves, in bytes, and the longest that is worth reserving at once. */
const [LEAST_OUTPUT, MOST_OUTPUT] = [64, 16 * 1024];

/** Compresses an archived text. Most are short: a compressor that knows the length has less to set up. */
export function packText(content: string): Uint8Array<ArrayBuffer> {
  const text = bytesFromText(content);
  const { length } = text;
  const chunkSize = Math.min(Math.max(length, LEAST_OUTPUT), MOST_OUTPUT);
  const options = { chunkSize, pledgedSrcSize: length };
  return new Uint8Array(zstdCompressSync(text, options));
}

/** Returns the text, if its reference is its `archiveRef`; undefined if it was damaged. */
export function unpackText(zstd: Uint8Array, ref: string): string | undefined {
  try {
    const bytes = new Uint8Array(zstdDecompressSync(zstd));
    const isWhole = createHash("sha256").update(bytes).digest("hex").startsWith(ref);
    return isWhole ? textFromBytes(bytes) : undefined;
  } catch {
    return undefined;
  }
}
