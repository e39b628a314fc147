import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

/** Rows of a table that asks for no more. */
const ROWS = 25;

/** A table of numbers, which scrolls by itself: its first rows, and as many more as are asked for. */
export function NumbersTable<Row>({ label, heads, words = [], rows, draw, more = "More" }: {
  readonly label: string;
  readonly heads: readonly string[];
  /** Those of them under which words stand. Default: none but the first. */
  readonly words?: readonly string[];
  readonly rows: readonly Row[];
  /** A row as a `tr`. */
  readonly draw: (row: Row) => ComponentChildren;
  /** What asks for more rows. Default: "More". */
  readonly more?: string;
}): JSX.Element {
  const [shown, setShown] = useState(ROWS);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        <table class="numbers">
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head} scope="col" class={words.includes(head) ? "words" : undefined}>{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>{rows.slice(0, shown).map(draw)}</tbody>
        </table>
      </div>
      {rows.length > shown && (
        <button type="button" class="quiet" onClick={() => setShown(shown * 4)}>{more}</button>
      )}
    </>
  );
}
