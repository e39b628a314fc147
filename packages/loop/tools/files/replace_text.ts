import { Refusal } from "../define_tool.ts";
import { shortLines } from "../result_text.ts";
import { similarity } from "./similarity.ts";

/** Places named in a message. */
const MAX_NAMED = 20;

/** What to replace. */
export interface Replacement {
  readonly oldText: string;
  readonly newText: string;
  /** Replace every occurrence. Default: there must be exactly one. */
  readonly all?: boolean;
}

/** A text in which something was replaced. */
export interface ReplacedText {
  readonly text: string;
  /** Where the new pieces start in `text`, in order. */
  readonly starts: readonly number[];
  /** Length of each new piece. */
  readonly length: number;
}

/**
 * Replaces exact text. If all lines of the file end alike, LF or CRLF, the replacement's line ends count as those.
 *
 * @throws {Refusal} if the old text is not found, or found more than once and `all` is not set.
 */
export function replaceText(text: string, { oldText, newText, all = false }: Replacement): ReplacedText {
  const lineEnd = uniformLineEnd(text);
  const adapt = (part: string) => lineEnd === undefined ? part : part.replaceAll(/\r?\n/g, lineEnd);
  const [wanted, replacement] = [adapt(oldText), adapt(newText)];
  const found = occurrences(text, wanted);
  if (found.length === 0) throw new Refusal(notFound(text, oldText, lineEnd));
  if (found.length > 1 && !all) throw new Refusal(ambiguous(text, found));
  const growth = replacement.length - wanted.length;
  return {
    text: text.replaceAll(wanted, () => replacement),
    starts: found.map((at, earlier) => at + earlier * growth),
    length: replacement.length,
  };
}

/** Number, from 1, of the line that holds the character at `index`. */
export function lineNumberAt(text: string, index: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < index; at = text.indexOf("\n", at + 1)) line++;
  return line;
}

/** Numbers of the lines at these indices, of at most the first twenty, for a message. */
export function lineNumbers(text: string, indices: readonly number[]): string {
  const numbers = indices.slice(0, MAX_NAMED).map((at) => lineNumberAt(text, at));
  return numbers.join(", ") + (indices.length > MAX_NAMED ? ", …" : "");
}

/** How all lines end; `undefined` if they differ or there is but one. */
function uniformLineEnd(text: string): "\n" | "\r\n" | undefined {
  const ends = text.split("\n").length - 1;
  const crlf = text.split("\r\n").length - 1;
  if (ends === 0) return undefined;
  return crlf === 0 ? "\n" : crlf === ends ? "\r\n" : undefined;
}

function occurrences(text: string, wanted: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) found.push(at);
  return found;
}

function ambiguous(text: string, found: readonly number[]): string {
  return `old_text occurs ${found.length} times, in lines ${
    lineNumbers(text, found)
  }. Add lines around it until it ` +
    "is unique, or set replace_all to true.";
}

function notFound(text: string, oldText: string, lineEnd: string | undefined): string {
  const lines = text.split(/\r?\n/);
  const nearest = nearestLines(lines, oldText.split(/\r?\n/));
  const mixed = lineEnd === undefined && text.includes("\r\n")
    ? " Some lines of the file end in CRLF and some in LF; edit such lines one by one."
    : "";
  if (!nearest) {
    return `old_text is not in it, nor anything like it. Look for the place with search_files.${mixed}`;
  }
  return `old_text is not in it. Copy it exactly, white space included.${mixed} The nearest lines are ` +
    `${nearest.start + 1}-${nearest.end}:\n${shortLines(lines.slice(nearest.start, nearest.end))}`;
}

/** A run of lines, counted from 0; `end` is not included. */
export interface LineRange {
  readonly start: number;
  readonly end: number;
}

const MIN_SIMILARITY = 0.5;
/** Places compared line by line once the longest line has singled them out. */
const MAX_PLACES = 10;

/** How much of a line is compared. */
const MAX_LINE_CHARS = 500;

/** The run of as many `lines` as are `wanted` that is most like them; `undefined` if none is much like them. */
export function nearestLines(lines: readonly string[], wanted: readonly string[]): LineRange | undefined {
  const [heads, wantedHeads] = [lines.map(head), wanted.map(head)];
  const anchor = wantedHeads.reduce(
    (longest, line, at) => line.length > (wantedHeads[longest]?.length ?? 0) ? at : longest,
    0,
  );
  const anchorLength = wantedHeads[anchor]?.length ?? 0;
  const likeness = (at: number, wantedAt: number) => similarity(heads[at] ?? "", wantedHeads[wantedAt] ?? "");
  const starts = heads
    .map((line, at) => ({ at, score: mayBeAlike(line.length, anchorLength) ? likeness(at, anchor) : 0 }))
    .filter(({ score }) => score >= MIN_SIMILARITY)
    .sort((a, b) => b.score - a.score)
    .slice(0, MAX_PLACES)
    .map(({ at }) => at - anchor);
  const scores = starts.map((start) => wanted.reduce((sum, _, at) => sum + likeness(start + at, at), 0));
  const start = starts[scores.indexOf(Math.max(...scores))];
  if (start === undefined) return undefined;
  return { start: Math.max(0, start), end: Math.min(lines.length, start + wanted.length) };
}

function head(line: string): string {
  return line.trim().slice(0, MAX_LINE_CHARS);
}

/** Texts of too different lengths can't reach the least similarity, which spares comparing them. */
function mayBeAlike(length: number, other: number): boolean {
  return Math.min(length, other) >= MIN_SIMILARITY * Math.max(length, other);
}
