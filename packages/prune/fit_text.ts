import type { CountTokens } from "@tare/messages";

/** How much of a text to take. */
interface FitOptions {
  readonly maxTokens: number;
  readonly countTokens: CountTokens;
}

/** Texts are cut with few tries from above: hardly any has more characters than this for each token. */
const CHARS_PER_TOKEN = 8;

/**
 * As much of a text's start as has at most `maxTokens`, roughly: it prefers to end behind a line break, and never
 * splits a surrogate pair. Counts only pieces of the size of the answer, however long the text is.
 */
export function fitHead(text: string, options: FitOptions): string {
  const chars = fitChars((chars) => text.slice(0, chars), text.length, options);
  if (chars === text.length) return text;
  const lineEnd = text.lastIndexOf("\n", chars - 1) + 1;
  if (lineEnd >= chars * 0.75) return text.slice(0, lineEnd);
  return text.slice(0, splitsPair(text, chars) ? chars - 1 : chars);
}

/** The same of a text's end; it prefers to begin behind a line break. */
export function fitTail(text: string, options: FitOptions): string {
  const chars = fitChars((chars) => text.slice(text.length - chars), text.length, options);
  if (chars === text.length) return text;
  const start = text.length - chars;
  const lineStart = text.indexOf("\n", start - 1) + 1;
  if (lineStart > 0 && text.length - lineStart >= chars * 0.75) return text.slice(lineStart);
  return text.slice(splitsPair(text, start) ? start + 1 : start);
}

function fitChars(
  piece: (chars: number) => string,
  length: number,
  { maxTokens, countTokens }: FitOptions,
): number {
  let chars = Math.max(0, Math.min(length, maxTokens * CHARS_PER_TOKEN));
  while (chars > 0) {
    const tokens = countTokens(piece(chars));
    if (tokens <= maxTokens) break;
    chars = Math.floor(chars * 0.97 * maxTokens / tokens);
  }
  return chars;
}

function splitsPair(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff;
}
