import type { FileChange } from "@tare/messages";
import { changedLines } from "@tare/server/internal/format";
import { printableText } from "./printable_text.ts";

const COLORS = { added: "\x1b[32m", removed: "\x1b[31m", hunk: "\x1b[36m" } as const;

/** Returns the escaped lines of a diff, colored if `isColored` (default: false). */
export function renderDiff(
  change: FileChange,
  { isColored = false }: { readonly isColored?: boolean } = {},
): readonly string[] {
  const { lines, rest } = changedLines(change);
  return [
    ...lines.map(({ kind, text }) => {
      // Tabs are common in files and hide nothing.
      const printable = text.split("\t").map((part) => printableText(part, { isWhole: true })).join("\t");
      return isColored && kind ? `${COLORS[kind]}${printable}\x1b[39m` : printable;
    }),
    ...(rest === undefined ? [] : [`… and ${rest}`]),
  ];
}

export function changeInShort({ path, added, removed }: FileChange): string {
  return added + removed === 0 ? `${path} (unchanged)` : `${path} (+${added} −${removed})`;
}
