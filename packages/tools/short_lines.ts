import { sliceText } from "./slice_text.ts";

const MAX_LINES = 24;
const MAX_LINE_CHARS = 300;

/** Lines joined for a glance: of many the middle, and of long ones the end, is left out. */
export function shortLines(lines: readonly string[]): string {
  const shown = lines.length <= MAX_LINES ? lines : [
    ...lines.slice(0, MAX_LINES / 2),
    `[… ${lines.length - MAX_LINES} lines …]`,
    ...lines.slice(-MAX_LINES / 2),
  ];
  return shown
    .map((line) => line.length > MAX_LINE_CHARS ? `${sliceText(line, 0, MAX_LINE_CHARS)}…` : line)
    .join("\n");
}
