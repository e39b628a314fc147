/**
 * The name that was probably meant: the one with the smallest edit distance (Levenshtein), case, `-` and `_` apart,
 * if it differs in no more than a third of its characters.
 */
export function closestName(given: string, names: Iterable<string>): string | undefined {
  const wanted = plain(given);
  let closest: string | undefined;
  let least = Infinity;
  for (const name of names) {
    const distance = editDistance(wanted, plain(name));
    if (distance <= name.length / 3 && distance < least) [closest, least] = [name, distance];
  }
  return closest;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[-_]/g, "");
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(row, j - 1) + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(replaced, at(row, j) + 1, at(next, j - 1) + 1));
    }
    row = next;
  }
  return at(row, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? 0;
}
