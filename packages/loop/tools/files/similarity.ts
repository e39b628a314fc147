import { distance } from "fastest-levenshtein";

/** How alike two texts are, from 0 to 1: the share of the longer one that stays when one becomes the other. */
export function similarity(a: string, b: string): number {
  const length = Math.max(a.length, b.length);
  return length === 0 ? 1 : 1 - distance(a, b) / length;
}
