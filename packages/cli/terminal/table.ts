import { oneLine } from "@tare/server/internal/format";

const NAME_CHARS = 48;

export function short(name: string): string {
  return oneLine(name, NAME_CHARS);
}

/** Returns an aligned table: names in the first column, numbers in the others. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [heads, ...rows];
  const widths = heads.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  return all.map((row) =>
    row.map((cell, at) => at === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[at]!)).join("  ")
  ).join("\n");
}
