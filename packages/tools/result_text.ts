export { sliceText } from "@tare/messages/internal";
import { sliceText } from "@tare/messages/internal";

/**
 * Longest result of the tools that read, in UTF-8 bytes, header aside. Of common code and prose this is fewer than
 * 8,000 tokens, above which results are usually shortened before the model sees them: a page that fits is seen whole.
 */
export const MAX_RESULT_BYTES: number = 24 * 1024;

const encoder = new TextEncoder();

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** The rows from the start that fit in one result: at most `maxRows`, and {@linkcode MAX_RESULT_BYTES} with newlines. */
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

/** Lines joined for a glance: of many the middle, and of long ones the end, is left out. */
export function shortLines(lines: readonly string[]): string {
  const shown = lines.length <= MAX_LINES ? lines : [
    ...lines.slice(0, MAX_LINES / 2),
    `[… ${lines.length - MAX_LINES} lines …]`,
    ...lines.slice(-MAX_LINES / 2),
  ];
  return shown
    .map((line) => line.length > MAX_LINE_CHARS ? `${sliceText(line, 0, MAX_LINE_CHARS)}…` : line)
    .join("\n");
}

/** Text of bytes that need not be valid. */
interface DecodedText {
  readonly text: string;
  /** True if bytes that are no UTF-8, or NUL, were replaced by U+FFFD. */
  readonly replaced: boolean;
}

const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder();

/** Decodes UTF-8. Invalid bytes and NUL, which providers refuse, become U+FFFD; a byte order mark is dropped. */
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
