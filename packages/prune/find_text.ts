/** A line that holds a text, a piece of a long one, or a line beside one. */
interface FoundLine {
  /** The line with its number in front: `12:…` if it holds the text, `12-…` if it only stands beside one that does. */
  readonly text: string;
  /** Whether it holds the text. */
  readonly isFound: boolean;
  /** Position from which the same search finds this and what comes after it. */
  readonly start: number;
}

/** A longer line is shown only around what was found in it. */
const LONG_LINE_CHARS = 500;
/** How much of a long line is shown around a place. */
const EXCERPT_CHARS = 300;
/** How much of that in front of the place. */
const MARGIN_CHARS = 100;

/**
 * Finds the lines that hold a text in upper or lower case, from a position on to the end of the line that `end` ends,
 * and so many lines `around` each. Where others stand between two of them, `--` does, as in grep's output.
 */
export function* findText(text: string, options: {
  readonly find: string;
  /** Default: the beginning. */
  readonly start?: number;
  /** Default: the end. */
  readonly end?: number;
  /** Default: none. */
  readonly around?: number;
  /** Number of the first line. Default 1. */
  readonly firstLine?: number;
}): Generator<FoundLine> {
  const { find, start = 0, end = text.length, around = 0, firstLine = 1 } = options;
  const folded = fold(text);
  const wanted = fold(find);
  let at = folded.indexOf(wanted, start);
  /** Lines that may stand in front of what comes, and how many may behind what came. */
  let before: FoundLine[] = [];
  let behind = 0;
  let [hasFound, isGap] = [false, false];
  let lineStart = 0;
  for (let number = firstLine; lineStart <= end && (at >= 0 || behind > 0); number++) {
    const newline = text.indexOf("\n", lineStart);
    const lineEnd = newline < 0 ? text.length : newline;
    const line = text.slice(lineStart, lineEnd);
    if (at >= 0 && at < Math.min(lineEnd, end)) {
      if (isGap) yield { text: "--", isFound: false, start: lineStart };
      yield* before;
      if (line.length <= LONG_LINE_CHARS) {
        yield { text: `${number}:${line}`, isFound: true, start: lineStart };
        at = folded.indexOf(wanted, lineEnd);
      }
      while (at >= 0 && at < lineEnd) {
        const from = Math.max(lineStart, at - MARGIN_CHARS);
        const to = Math.min(lineEnd, from + EXCERPT_CHARS);
        const shown = text.slice(from, to).toWellFormed();
        yield { text: `${number}, offset ${from}: … ${shown} …`, isFound: true, start: at };
        // What the end of the excerpt cuts is found again.
        at = folded.indexOf(wanted, Math.max(at + 1, to - wanted.length + 1));
      }
      [before, behind, hasFound, isGap] = [[], around, true, false];
    } else {
      const beside = { text: `${number}-${shorten(line)}`, isFound: false, start: lineStart };
      if (behind > 0) {
        yield beside;
        behind--;
      } else if (around > 0) {
        before.push(beside);
        if (before.length > around) isGap = before.shift() !== undefined && hasFound;
      }
    }
    if (newline < 0) return;
    lineStart = newline + 1;
  }
}

function shorten(line: string): string {
  return line.length <= LONG_LINE_CHARS ? line : `${line.slice(0, EXCERPT_CHARS).toWellFormed()} …`;
}

/** A text in which case makes no difference, with each character where it was. */
function fold(text: string): string {
  // Of all letters İ alone gets longer, and only Σ becomes one of two.
  return text.replaceAll("İ", "i").toLowerCase().replaceAll("ς", "σ");
}
