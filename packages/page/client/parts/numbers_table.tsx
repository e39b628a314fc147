import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

const ROWS = 25;

/** A column. The first one labels the rows. `text` and `clipped` contain text; `clipped` may be long. */
export type Column<Row> = readonly [
  head: string,
  cell: (row: Row) => ComponentChildren,
  kind?: "text" | "clipped",
];

export function NumbersTable<Row>({ label, columns, rows, isChosen, more = "More" }: {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly isChosen?: (row: Row) => boolean;
  /** Default: "More". */
  readonly more?: string;
}): JSX.Element {
  const [visible, setVisible] = useState(ROWS);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        <table class="numbers">
          <thead>
            <tr>
              {columns.map(([head, , kind]) => (
                <th key={head} scope="col" class={kind === "text" ? kind : undefined}>{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, visible).map((row, at) => (
              <tr key={at} class={isChosen?.(row) ? "selected" : undefined}>
                {columns.map(([head, cell, kind], at) =>
                  at === 0
                    ? <th key={head} scope="row" class={kind}>{cell(row)}</th>
                    : <td key={head} class={kind}>{cell(row)}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > visible && (
        <button type="button" class="quiet" onClick={() => setVisible(visible * 4)}>{more}</button>
      )}
    </>
  );
}
