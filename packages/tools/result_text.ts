export { sliceText } from "@tare/messages/internal";
import { sliceText } from "@tare/messages/internal";

/**
 * Maximum result of tools that read, in UTF-8 bytes without the header: below 8,000 tokens of common code and
 * prose, above which results are usually truncated.
 */
export const MAX_RESULT_BYTES: number = 24 * 1024;

const encoder = new TextEncoder();

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/**
 * Returns the first rows that fit in one result: at most `maxRows` and, with newlines,
 * {@linkcode MAX_RESULT_BYTES}.
 */
export function fittingRows(rows: readonly string[], maxRows: number): readonly string[] {
  let bytes = 0;
  let count = 0;
  for (const row of rows) {
    bytes += byteLength(row) + 1;
    if (bytes > MAX_RESULT_BYTES || count === maxRows) break;
    count++;
  }
  return rows.slice(0, count);
}

const MAX_LINES = 24;
const MAX_LINE_CHARS = 300;

/**
 * Returns an excerpt of lines: without the middle ones if there are many, and without the ends of long ones.
 */
export function shortLines(lines: readonly string[]): string {
  const visible = lines.length <= MAX_LINES ? lines : [
    ...lines.slice(0, MAX_LINES / 2),
    `[… ${lines.length - MAX_LINES} lines …]`,
    ...lines.slice(-MAX_LINES / 2),
  ];
  return visible
    .map((line) => line.length > MAX_LINE_CHARS ? `${sliceText(line, 0, MAX_LINE_CHARS)}…` : line)
    .join("\n");
}

interface DecodedText {
  readonly text: string;
  readonly replaced: boolean;
}

const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder();

/**
 * Decodes UTF-8 without its byte order mark. Invalid bytes and NUL, which providers reject, become U+FFFD.
 */
export function decodeText(bytes: Uint8Array): DecodedText {
  let text: string;
  let replaced = false;
  try {
    text = strict.decode(bytes);
  } catch {
    text = lenient.decode(bytes);
    replaced = true;
  }
  return text.includes("\0") ? { text: text.replaceAll("\0", "\uFFFD"), replaced: true } : { text, replaced };
}
