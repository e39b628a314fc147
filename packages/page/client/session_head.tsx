import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { sentenceOf } from "./talk/conversation.ts";
import { keepSessionWarm } from "./api/reports.ts";
import type { Head } from "./api/sessions.ts";
import { counted, dollars, share } from "./parts/format.ts";
import { isPriced, money, saved, withoutPrice } from "./parts/spent.tsx";
import { addressOf, type Place } from "./place.ts";

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
      {head && <KeepWarm key={id} id={id} />}
    </header>
  );
}

/** Asks that the provider's cache holds the prompt while nobody says anything, and tells what that costs. */
function KeepWarm({ id }: { readonly id: string }): JSX.Element {
  const [told, setTold] = useState<{ readonly text: string; readonly isTrouble: boolean }>();
  const ask = async () => {
    try {
      const { until, maxUsd } = await keepSessionWarm(id);
      const text = `Kept warm until ${new Date(until).toLocaleTimeString()} at most, for at most ${
        dollars(maxUsd)
      }.`;
      setTold({ text, isTrouble: false });
    } catch (error) {
      setTold({ text: sentenceOf(error), isTrouble: true });
    }
  };
  return (
    <p class="warm">
      <button type="button" class="quiet" onClick={ask}>Keep warm for an hour</button>
      <span role="status" class={told?.isTrouble ? "trouble" : ""}>{told?.text}</span>
    </p>
  );
}

function factsOf({ model, agent, sums, prompt }: Head): string[] {
  const window = prompt?.windowTokens &&
    `${share(prompt.tokens, prompt.windowTokens)} of its window of ${counted(prompt.windowTokens, "token")}`;
  const facts = [
    model,
    agent,
    isPriced(sums) ? money(sums) : `the price of ${counted(sums.tokenUnits, "uncached input token")}`,
    withoutPrice(sums),
    window,
    sums.calls > 0 && `${saved(sums)} saved`,
  ];
  return facts.flatMap((fact) => fact || []);
}
