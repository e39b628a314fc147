import { distance } from "fastest-levenshtein";

/**
 * Returns the name that was probably meant, ignoring case and punctuation: one that begins with the given
 * text, or else the one with the smallest edit distance. Returns `undefined` if it differs in more than two
 * characters and a third of them.
 * @param options.isAny Whether the nearest name is returned at any distance. Default: false.
 */
export function nearestName(
  given: string,
  names: Iterable<string>,
  { isAny = false }: { readonly isAny?: boolean } = {},
): string | undefined {
  const plain = (name: string) => name.toLowerCase().replaceAll(/[\p{P}\p{S}]/gu, "");
  const meant = plain(given);
  const editsOf = (name: string) =>
    meant !== "" && plain(name).startsWith(meant) ? 0 : distance(plain(name), meant);
  return Array.from(names, (name) => ({ name, edits: editsOf(name) }))
    .filter(({ name, edits }) => isAny || edits < name.length && edits <= Math.max(2, name.length / 3))
    .sort((a, b) => a.edits - b.edits)[0]?.name;
}
