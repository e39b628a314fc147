import type { JSX } from "preact";

export function Choice<Name extends string>({ label, names, chosen, choose }: {
  readonly label: string;
  readonly names: Readonly<Record<Name, string>>;
  readonly chosen: Name;
  readonly choose: (name: Name) => void;
}): JSX.Element {
  return (
    <div class="choice" role="group" aria-label={label}>
      {(Object.keys(names) as Name[]).map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === chosen}
          onClick={() => choose(name)}
        >
          {names[name]}
        </button>
      ))}
    </div>
  );
}
