import type { RE2JS } from "re2js";

/** One thing found: a line, or what surrounds a match in a long line. */
export interface LineMatch {
  /** The line's number, and the line or the excerpt. */
  readonly text: string;
  readonly excerpt: boolean;
  /** Position in the text from which the same search finds this and what comes after it. */
  readonly start: number;
}

/** A longer line is shown only around its matches. */
const LONG_LINE_CHARS = 500;
/** How much of a long line is shown around a match. */
const EXCERPT_CHARS = 300;
/** How much of that before the match; and how much of its end is searched again, for a match that it cut. */
const MARGIN_CHARS = 100;

/** Finds the lines that match, from the position `start` on to the end of the line that `end` ends. */
export function* searchLines(
  text: string,
  options: { readonly start: number; readonly end: number; readonly expression: RE2JS },
): Generator<LineMatch> {
  const { start, end, expression } = options;
  let lineStart = start === 0 ? 0 : text.lastIndexOf("\n", start - 1) + 1;
  for (let number = lineNumber(text, lineStart); lineStart <= end; number += 1) {
    const newline = text.indexOf("\n", lineStart);
    const lineEnd = newline < 0 ? text.length : newline;
    const line = text.slice(lineStart, lineEnd);
    if (line.length > LONG_LINE_CHARS) {
      yield* excerpts(line, { number, lineStart, start, expression });
    } else if (expression.test(line)) {
      yield { text: `${number}:${line}`, excerpt: false, start: lineStart };
    }
    lineStart = lineEnd + 1;
  }
}

function* excerpts(
  line: string,
  options: {
    readonly number: number;
    readonly lineStart: number;
    readonly start: number;
    readonly expression: RE2JS;
  },
): Generator<LineMatch> {
  const { number, lineStart, start, expression } = options;
  if (!expression.test(line)) return;
  const matcher = expression.matcher(line);
  let from = Math.max(0, start - lineStart);
  while (from < line.length && matcher.find(from)) {
    const shownFrom = Math.max(from, matcher.start() - MARGIN_CHARS);
    const shown = line.slice(shownFrom, shownFrom + EXCERPT_CHARS).toWellFormed();
    const at = lineStart + shownFrom;
    yield { text: `${number}, offset ${at}: … ${shown} …`, excerpt: true, start: lineStart + from };
    from = Math.max(shownFrom + EXCERPT_CHARS - MARGIN_CHARS, matcher.end());
  }
}

/** Number of the line in which a position stands, from 1. */
export function lineNumber(text: string, position: number): number {
  let number = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < position; at = text.indexOf("\n", at + 1)) number += 1;
  return number;
}
