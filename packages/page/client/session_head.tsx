import type { JSX } from "preact";
import { addressOf, type Place } from "./place.ts";

/** What a session is called, and its views. */
export function SessionHead(
  { place, title }: {
    readonly place: Exclude<Place, { view: "new" | "overview" }>;
    readonly title: string;
  },
): JSX.Element {
  const { id, view } = place;
  const kind = place.view === "talk" ? "session" : place.kind;
  const views = [
    ...(kind === "session" ? [{ name: "Talk", to: { view: "talk", id } as const }] : []),
    { name: "Where the tokens went", to: { view: "calls", id, kind } as const },
    { name: "What the model sees", to: { view: "prompt", id, kind } as const },
  ];
  return (
    <header class="session-head">
      <h1>
        <bdi>{title}</bdi>
      </h1>
      <nav aria-label="Views of the session">
        {views.map(({ name, to }) => (
          <a key={name} href={addressOf(to)} aria-current={to.view === view ? "page" : undefined}>{name}</a>
        ))}
      </nav>
    </header>
  );
}
