import type { JSX } from "preact";
import type { Head } from "./api/sessions.ts";
import { counted, share } from "./parts/format.ts";
import { isPriced, money, saved, withoutPrice } from "./parts/spent.tsx";
import { addressOf, type Place } from "./place.ts";
import { SessionActions } from "./session_actions.tsx";

/** What a session is called, what it has cost, and its views. */
export function SessionHead(
  { place, head }: {
    readonly place: Exclude<Place, { view: "new" | "overview" }>;
    /** Nothing until it is read. */
    readonly head: Head | undefined;
  },
): JSX.Element {
  const { id, view } = place;
  const kind = place.view === "talk" ? "session" : place.kind;
  const views = [
    ...(kind === "session" ? [{ name: "Talk", to: { view: "talk", id } as const }] : []),
    { name: "Where the money went", to: { view: "calls", id, kind } as const },
    { name: "What the model sees", to: { view: "prompt", id, kind } as const },
  ];
  return (
    <header class="session-head">
      <h1>
        <bdi>{head?.title ?? "Session"}</bdi>
      </h1>
      <nav aria-label="Views of the session">
        {views.map(({ name, to }) => (
          <a key={name} href={addressOf(to)} aria-current={to.view === view ? "page" : undefined}>{name}</a>
        ))}
      </nav>
      {head && (
        <p class="facts">
          <bdi>{factsOf(head).join(" · ")}</bdi>
        </p>
      )}
      {head?.forkedFrom !== undefined && (
        <p class="facts">
          Goes on from{" "}
          <a href={addressOf({ view: "talk", id: head.forkedFrom })}>another session</a>, which stays as it
          is.
        </p>
      )}
      {head && <SessionActions key={id} id={id} kind={kind} title={head.title} />}
    </header>
  );
}

function factsOf({ model, effort, agent, sums, prompt }: Head): string[] {
  const window = prompt?.windowTokens &&
    `${share(prompt.tokens, prompt.windowTokens)} of its window of ${counted(prompt.windowTokens, "token")}`;
  const facts = [
    model,
    effort !== undefined && `effort ${effort}`,
    agent,
    isPriced(sums) ? money(sums) : `the price of ${counted(sums.tokenUnits, "uncached input token")}`,
    withoutPrice(sums),
    window,
    sums.calls > 0 && `${saved(sums)} saved`,
  ];
  return facts.flatMap((fact) => fact || []);
}
