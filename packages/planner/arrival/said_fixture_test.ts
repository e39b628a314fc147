const LABEL = /^\[(?:lines (\d+)-(\d+)|(\d+) lines) unchanged, as in (.+) above: "(.*)" to "(.*)"\]$/;
const NUMBER = /^\s*\d{1,7}(?:→|\t|\| ?)/;
const REPEATED = /^\((\d+) more lines like this\)$/;

/** A text, and what a model knows it by. */
export interface NamedText {
  readonly name: string;
  readonly text: string;
}

/**
 * What a reader makes of a text of which some lines stand above and some are counted: all of its lines, without the
 * numbers in front. Written apart from what says it so, on purpose.
 *
 * @param above The texts in front of it, from the first on, and what each is known by.
 * @throws {Error} for a label that nothing above answers to.
 */
export function readSaid(text: string, above: readonly NamedText[]): string[] {
  const lines: string[] = [];
  for (const line of text.split("\n")) {
    const [label, start, end, count, name, first = "", last = ""] = LABEL.exec(line) ?? [];
    const more = Number(REPEATED.exec(line)?.[1] ?? 0);
    if (more > 0) lines.push(...Array.from({ length: more }, () => lines.at(-1)!));
    else if (label === undefined) lines.push(line.replace(NUMBER, ""));
    else {
      const length = count === undefined ? Number(end) - Number(start) + 1 : Number(count);
      const named = above.filter((one) => one.name === name);
      lines.push(...blockAbove(named, { length, first, last }));
    }
  }
  return lines;
}

/** The nearest block that begins and ends so. */
function blockAbove(
  above: readonly NamedText[],
  { length, first, last }: { readonly length: number; readonly first: string; readonly last: string },
): string[] {
  for (const { text } of above.toReversed()) {
    const lines = text.split("\n").map((line) => line.replace(NUMBER, ""));
    for (let at = 0; at + length <= lines.length; at++) {
      const block = lines.slice(at, at + length);
      if (block.some((line) => LABEL.test(line))) continue;
      if (block[0]!.trim().startsWith(first) && block.at(-1)!.trim().endsWith(last)) return block;
    }
  }
  throw new Error(`Nothing above begins with "${first}" and ends with "${last}" after ${length} lines`);
}

/** A text's lines without the numbers in front. */
export function plainLines(text: string): string[] {
  return text.split("\n").map((line) => line.replace(NUMBER, ""));
}
