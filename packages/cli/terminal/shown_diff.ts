import type { FileChange } from "@tare/messages";
import { changedLines } from "@tare/server/internal/format";
import { shownText } from "./shown_text.ts";

const COLOURS = { comes: "\x1b[32m", goes: "\x1b[31m", where: "\x1b[36m" } as const;

/** Returns the lines of a change, escaped, with `+`, `-` and `@@`; colored if `isColoured` (default: false). */
export function shownDiff(
  change: FileChange,
  { isColoured = false }: { readonly isColoured?: boolean } = {},
): readonly string[] {
  const { lines, rest } = changedLines(change);
  return [
    ...lines.map(({ kind, text }) => {
      // Files are full of tabs, and they hide nothing.
      const shown = text.split("\t").map((part) => shownText(part, { isWhole: true })).join("\t");
      return isColoured && kind ? `${COLOURS[kind]}${shown}\x1b[39m` : shown;
    }),
    ...(rest === undefined ? [] : [`… and ${rest}`]),
  ];
}

export function changeInShort({ path, added, removed }: FileChange): string {
  return added + removed === 0 ? `${path}, which stays as it is` : `${path} (+${added} −${removed})`;
}
