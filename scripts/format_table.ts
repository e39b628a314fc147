/** Formats rows as lines of aligned columns: the first two to the left, the others to the right. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column < 2 ? cell.padEnd(width) : cell.padStart(width);
    }).join("  ").trimEnd()
  ).join("\n");
}
