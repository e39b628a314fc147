import type { JSX } from "preact";

/** A number that a view is about. */
export interface Sum {
  readonly name: string;
  readonly value: string;
  /** What it is a part of, or the like. */
  readonly note?: string;
}

/** The few numbers that a view is about. */
export function Sums({ sums }: { readonly sums: readonly Sum[] }): JSX.Element {
  return (
    <dl class="sums">
      {sums.map(({ name, value, note }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            {note !== undefined && <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}
