import { similarityTo } from "./similarity.ts";

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
  const likenesses = wantedHeads.map(similarityTo);
  const anchor = wantedHeads.reduce(
    (longest, line, at) => line.length > (wantedHeads[longest]?.length ?? 0) ? at : longest,
    0,
  );
  const anchorLength = wantedHeads[anchor]?.length ?? 0;
  const likeness = (at: number, wantedAt: number) => likenesses[wantedAt]?.(heads[at] ?? "") ?? 0;
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
  return 2 * Math.min(length, other) >= MIN_SIMILARITY * (length + other);
}
