/**
 * The page that the server serves at `/`.
 *
 * @module
 */
import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ResponseOf } from "../../server/client.ts";
import { api, gate, hasKey, keepKey, takeKey } from "./api/api.ts";
import { OverviewView } from "./overview/overview.tsx";
import { dollars } from "./parts/format.ts";
import { Icon } from "./parts/icon.tsx";
import { type Place, placeOf } from "./place.ts";
import { Prompt } from "./prompt/prompt.tsx";
import { SessionList } from "./session_list.tsx";
import { GatewayView, NewSessionView, type ServersAgent } from "./chat/new_session.tsx";
import { TalkView } from "./chat/chat.tsx";
import { Calls } from "./usage/calls.tsx";

/** In milliseconds. */
const SPENT_EVERY = 15_000;

takeKey();
render(<App />, document.body);

/** Renders the page. The open view is in the address, for history and links. */
function App(): JSX.Element {
  const place = usePlace();
  const [locked, setLocked] = useState<"open" | "asking" | "refused">("open");
  useEffect(() => {
    gate.locked = () => setLocked(hasKey() ? "refused" : "asking");
  }, []);
  const agent = useAgent(locked === "open");
  useEffect(() => document.getElementById("sidebar")?.hidePopover(), [place]);
  if (locked !== "open") {
    const enter = (key: string) => {
      keepKey(key);
      setLocked("open");
    };
    return <Lock isRefused={locked === "refused"} enter={enter} />;
  }
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to content</a>
      <aside class="sidebar" id="sidebar" popover="auto" aria-label="Sessions">
        <div class="brand-row">
          <a class="brand" href="#/">Tare</a>
          <button
            type="button"
            class="quiet menu"
            popovertarget="sidebar"
            popovertargetaction="hide"
            aria-label="Close"
          >
            <Icon name="close" />
          </button>
        </div>
        <nav aria-label="Page">
          <a href="#/" aria-current={place.view === "new" ? "page" : undefined}>
            <Icon name="plus" />
            {isGatewayOnly(agent) ? "This server" : "New session"}
          </a>
          <a href="#/overview" aria-current={place.view === "overview" ? "page" : undefined}>
            <Icon name="chart" />
            Overview
          </a>
        </nav>
        <SessionList place={place} />
        <SignedIn />
      </aside>
      <main id="main" tabIndex={-1}>{view(place, agent)}</main>
    </>
  );
}

function view(place: Place, agent: ServersAgent): JSX.Element {
  switch (place.view) {
    case "new":
      return isGatewayOnly(agent) ? <GatewayView {...agent} /> : <NewSessionView agent={agent} />;
    case "overview":
      return <OverviewView />;
    case "talk":
      return <TalkView key={place.id} id={place.id} />;
    case "calls":
      return <Calls key={place.id} subject={place} />;
    case "prompt":
      return <Prompt key={`${place.id} ${place.block}`} subject={place} block={place.block} />;
  }
}

function useAgent(isOpen: boolean): ServersAgent {
  const [agent, setAgent] = useState<ServersAgent>();
  useEffect(() => {
    if (isOpen) api.json("GET /agent").then(setAgent, () => {});
  }, [isOpen]);
  return agent;
}

function isGatewayOnly(agent: ServersAgent): agent is ResponseOf<"GET /agent"> {
  return agent !== undefined && agent.model === undefined;
}

function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const follow = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return place;
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Lock(
  { isRefused, enter }: { readonly isRefused: boolean; readonly enter: (key: string) => void },
): JSX.Element {
  const [key, setKey] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (key.trim() !== "") enter(key.trim());
  };
  return (
    <main class="sign-in">
      <h1>Tare</h1>
      <form onSubmit={submit}>
        <label for="key">Your key</label>
        <input
          id="key"
          type="password"
          autocomplete="current-password"
          value={key}
          aria-describedby="key-help"
          aria-invalid={isRefused}
          ref={(field) => field?.focus()}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <p id="key-help" role={isRefused ? "alert" : undefined}>
          {isRefused && "Invalid or removed key. "}
          On the server’s machine, <code>tare page</code>{" "}
          opens this page with the owner’s key. If the server was started with{" "}
          <code>TARE_TOKEN</code>, its value is the key. Other users get a key from the owner. This browser
          stores it for this server.
        </p>
        <button type="submit" class="primary">Sign in</button>
      </form>
    </main>
  );
}

function SignedIn(): JSX.Element | null {
  const [key, setKey] = useState<ResponseOf<"GET /key">>();
  useEffect(() => {
    // A rejected key is requested by the gate; other views report an unreachable server.
    const read = () => api.json("GET /key").then(setKey, () => {});
    read();
    gate.spent = read;
    const timer = setInterval(read, SPENT_EVERY);
    return () => {
      clearInterval(timer);
      gate.spent = () => {};
    };
  }, []);
  if (!key || key.name === "guest") return null;
  const { name, budgetUsdPerDay: budget, spentUsd: spent = 0 } = key;
  const isSpent = budget !== undefined && spent >= budget;
  const leave = () => {
    keepKey(undefined);
    location.reload();
  };
  return (
    <p class="signed-in">
      <span>
        Signed in as <bdi>{name}</bdi>
        {budget !== undefined && ` · ${dollars(spent)} of ${dollars(budget)} today`}
      </span>
      <button type="button" class="quiet" onClick={leave}>Sign out</button>
      {isSpent && (
        <strong role="alert">
          This key’s budget for today is used up. Model calls resume at midnight UTC, or when the owner raises
          the budget.
        </strong>
      )}
    </p>
  );
}
