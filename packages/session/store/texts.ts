import { bytesFromText, textFromBytes } from "@tare/prune/internal";
import { createHash } from "node:crypto";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";

/** Shortest output buffer of zlib in bytes, and longest initial one. */
const [LEAST_OUTPUT, MAX_OUTPUT] = [64, 16 * 1024];

/** Returns a text compressed. The length is declared, which makes short texts faster. */
export function packText(content: string): Uint8Array<ArrayBuffer> {
  const text = bytesFromText(content);
  const { length } = text;
  const chunkSize = Math.min(Math.max(length, LEAST_OUTPUT), MAX_OUTPUT);
  const options = { chunkSize, pledgedSrcSize: length };
  return new Uint8Array(zstdCompressSync(text, options));
}

/** Returns the text if it matches its reference; `undefined` if it is damaged. */
export function unpackText(zstd: Uint8Array, ref: string): string | undefined {
  try {
    const bytes = new Uint8Array(zstdDecompressSync(zstd));
    const isWhole = createHash("sha256").update(bytes).digest("hex").startsWith(ref);
    return isWhole ? textFromBytes(bytes) : undefined;
  } catch {
    return undefined;
  }
}
