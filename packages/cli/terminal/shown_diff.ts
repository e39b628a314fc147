import type { FileChange } from "@tare/messages";
import { shownText } from "./shown_text.ts";

const COLOURS: Readonly<Record<string, string>> = { "+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m" };

/**
 * What a call changes, a line each: what comes begins with `+`, what goes with `-`. Whatever would hide or command the
 * terminal is written out.
 *
 * @param options.isColoured Whether a terminal shows them in colours. Default: false.
 */
export function shownDiff(
  { diff, omitted = 0 }: FileChange,
  { isColoured = false }: { readonly isColoured?: boolean } = {},
): readonly string[] {
  const lines = diff === "" ? [] : diff.split("\n").map((line) => {
    // Files are full of tabs, and they hide nothing.
    const shown = line.split("\t").map((part) => shownText(part, { isWhole: true })).join("\t");
    const colour = COLOURS[line.charAt(0)];
    return isColoured && colour ? `${colour}${shown}\x1b[39m` : shown;
  });
  return omitted === 0 ? lines : [...lines, `… and ${omitted} lines more, or longer than shown`];
}

/** Which file is changed, and by how much. */
export function changeInShort({ path, added, removed }: FileChange): string {
  return added + removed === 0 ? `${path}, which stays as it is` : `${path} (+${added} −${removed})`;
}
