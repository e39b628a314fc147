import type { FileChange } from "@tare/messages";
import { changedLines } from "@tare/server/internal/format";
import { printableText } from "./printable_text.ts";

const COLOURS = { added: "\x1b[32m", removed: "\x1b[31m", hunk: "\x1b[36m" } as const;

/** Returns the escaped lines of a diff, colored if `isColoured` (default: false). */
export function renderDiff(
  change: FileChange,
  { isColoured = false }: { readonly isColoured?: boolean } = {},
): readonly string[] {
  const { lines, rest } = changedLines(change);
  return [
    ...lines.map(({ kind, text }) => {
      // Tabs are common in files and hide nothing.
      const printable = text.split("\t").map((part) => printableText(part, { isWhole: true })).join("\t");
      return isColoured && kind ? `${COLOURS[kind]}${printable}\x1b[39m` : printable;
    }),
    ...(rest === undefined ? [] : [`… and ${rest}`]),
  ];
}

export function changeInShort({ path, added, removed }: FileChange): string {
  return added + removed === 0 ? `${path} (unchanged)` : `${path} (+${added} −${removed})`;
}
