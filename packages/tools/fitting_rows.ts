import { byteLength } from "./byte_length.ts";
import { MAX_RESULT_BYTES } from "./limits.ts";

/** The rows from the start that fit in one result: at most `maxRows`, and {@linkcode MAX_RESULT_BYTES} with newlines. */
export function fittingRows(rows: readonly string[], maxRows: number): readonly string[] {
  let bytes = 0;
  let count = 0;
  for (const row of rows) {
    bytes += byteLength(row) + 1;
    if (bytes > MAX_RESULT_BYTES || count === maxRows) break;
    count++;
  }
  return rows.slice(0, count);
}
