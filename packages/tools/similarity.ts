/**
 * Compares texts with one text: how alike they are, from 0 to 1, as the share of character pairs that they have in
 * common (the Sørensen–Dice coefficient over bigrams), white space at both ends left aside.
 */
export function similarityTo(subject: string): (text: string) => number {
  const trimmed = subject.trim();
  const pairs = countPairs(trimmed);
  return (text) => {
    const other = text.trim();
    if (trimmed === other) return 1;
    if (trimmed.length < 2 || other.length < 2) return 0;
    let common = 0;
    for (const [pair, count] of countPairs(other)) common += Math.min(count, pairs.get(pair) ?? 0);
    return 2 * common / (trimmed.length + other.length - 2);
  };
}

function countPairs(text: string): Map<string, number> {
  const pairs = new Map<string, number>();
  for (let at = 0; at < text.length - 1; at++) {
    const pair = text.slice(at, at + 2);
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  }
  return pairs;
}
