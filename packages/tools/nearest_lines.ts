import { similarityTo } from "./similarity.ts";

/** A run of lines, counted from 0; `end` is not included. */
export interface LineRange {
  readonly start: number;
  readonly end: number;
}

const MIN_SIMILARITY = 0.5;
/** Places compared line by line once the longest line has singled them out. */
const MAX_PLACES = 10;

/** The run of as many `lines` as are `wanted` that is most like them; `undefined` if none is much like them. */
export function nearestLines(lines: readonly string[], wanted: readonly string[]): LineRange | undefined {
  const likenesses = wanted.map(similarityTo);
  const longest = Math.max(...wanted.map((line) => line.trim().length));
  const anchor = wanted.findIndex((line) => line.trim().length === longest);
  const places = lines
    .map((line, at) => ({ at, score: mayBeAlike(line, longest) ? likenesses[anchor]?.(line) ?? 0 : 0 }))
    .filter(({ score }) => score >= MIN_SIMILARITY)
    .sort((a, b) => b.score - a.score)
    .slice(0, MAX_PLACES)
    .map(({ at }) => {
      const start = at - anchor;
      const sum = likenesses.reduce((sum, likeness, line) => sum + likeness(lines[start + line] ?? ""), 0);
      return { start, score: sum };
    })
    .sort((a, b) => b.score - a.score);
  const best = places[0]?.start;
  if (best === undefined) return undefined;
  return { start: Math.max(0, best), end: Math.min(lines.length, best + wanted.length) };
}

/** Texts of too different lengths can't reach the least similarity, which spares comparing them. */
function mayBeAlike(line: string, length: number): boolean {
  const other = line.trim().length;
  return 2 * Math.min(other, length) >= MIN_SIMILARITY * (other + length);
}
