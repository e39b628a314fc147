/**
 * The page that the server shows at `/`.
 *
 * @module
 */
import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Told } from "../../server/client.ts";
import { api, gate, hasKey, keepKey, takeKey } from "./api/api.ts";
import { OverviewView } from "./overview/overview.tsx";
import { dollars } from "./parts/format.ts";
import { type Place, placeOf } from "./place.ts";
import { Prompt } from "./prompt/prompt.tsx";
import { SessionList } from "./session_list.tsx";
import { GatewayView, NewSessionView } from "./talk/new_session.tsx";
import { TalkView } from "./talk/talk.tsx";
import { Calls } from "./usage/calls.tsx";

/** How often it is asked what the key has cost, in milliseconds. */
const SPENT_EVERY = 15_000;

takeKey();
render(<App />, document.body);

/** The whole page: what is open is in the address, so that it can be gone back to and shared. */
function App(): JSX.Element {
  const place = usePlace();
  const [locked, setLocked] = useState<"open" | "asking" | "refused">("open");
  useEffect(() => {
    gate.locked = () => setLocked(hasKey() ? "refused" : "asking");
  }, []);
  const agent = useAgent(locked === "open");
  if (locked !== "open") {
    const enter = (key: string) => {
      keepKey(key);
      setLocked("open");
    };
    return <Lock isRefused={locked === "refused"} enter={enter} />;
  }
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>To the content</a>
      <header class="top">
        <a class="brand" href="#/">Tare</a>
        <nav aria-label="Page">
          <a href="#/" aria-current={place.view === "new" ? "page" : undefined}>
            {isGatewayOnly(agent) ? "This server" : "New session"}
          </a>
          <a href="#/overview" aria-current={place.view === "overview" ? "page" : undefined}>Overview</a>
        </nav>
        <SignedIn />
      </header>
      <SessionList place={place} />
      <main id="main" tabIndex={-1}>{view(place, agent)}</main>
    </>
  );
}

function view(place: Place, agent: ServersAgent): JSX.Element {
  const seesPictures = agent?.seesPictures;
  switch (place.view) {
    case "new":
      return isGatewayOnly(agent)
        ? <GatewayView {...agent} />
        : <NewSessionView seesPictures={seesPictures} />;
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

/** What the server says of its agent; until then, and if it doesn't, it is taken for one that answers. */
type ServersAgent = Told<"GET /agent"> | undefined;

function useAgent(isOpen: boolean): ServersAgent {
  const [agent, setAgent] = useState<ServersAgent>();
  useEffect(() => {
    if (isOpen) api.json("GET /agent").then(setAgent, () => {});
  }, [isOpen]);
  return agent;
}

function isGatewayOnly(agent: ServersAgent): agent is Told<"GET /agent"> {
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

/** The address says what is open, so the link can't lead there by it. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Asks for a key, which this browser then keeps. */
function Lock(
  { isRefused, enter }: { readonly isRefused: boolean; readonly enter: (key: string) => void },
): JSX.Element {
  const [key, setKey] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (key.trim() !== "") enter(key.trim());
  };
  return (
    <main class="lock">
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
          {isRefused && "That isn’t a key of this server, or was removed. "}
          The owner’s is in the address that <code>tare keys page</code>{" "}
          prints on the server’s machine, or what TARE_TOKEN said at its start; the owner gives keys to
          others. This browser keeps it for this server.
        </p>
        <button type="submit" class="primary">Sign in</button>
      </form>
    </main>
  );
}

/** Who is signed in, what that key has cost today, and whether its budget is spent. */
function SignedIn(): JSX.Element | null {
  const [key, setKey] = useState<Told<"GET /key">>();
  useEffect(() => {
    // Who isn't let in is asked for a key; that the server is away others say.
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
      {isSpent && (
        <strong role="alert">
          This key’s budget for today is spent: nothing more is asked of a model before midnight UTC, or until
          the owner gives it more.
        </strong>
      )}
      <button type="button" class="quiet" onClick={leave}>Sign out</button>
    </p>
  );
}
