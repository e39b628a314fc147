import type { JSX } from "preact";

export function Field({ id, label, value, change, ...attributes }: {
  readonly id: string;
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly required?: boolean;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly placeholder?: string;
}): JSX.Element {
  return (
    <>
      <label for={id}>{label}</label>
      <input id={id} value={value} onInput={(event) => change(event.currentTarget.value)} {...attributes} />
    </>
  );
}
