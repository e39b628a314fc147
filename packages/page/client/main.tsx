/**
 * The page that the server shows at `/`.
 *
 * @module
 */
import { type JSX, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { gate, hasToken, keepToken } from "./api/api.ts";
import { OverviewView } from "./overview/overview.tsx";
import { type Place, placeOf } from "./place.ts";
import { Prompt } from "./prompt/prompt.tsx";
import { SessionList } from "./session_list.tsx";
import { NewSessionView } from "./talk/new_session.tsx";
import { TalkView } from "./talk/talk.tsx";
import { Calls } from "./usage/calls.tsx";

render(<App />, document.body);

/** The whole page: what is open is in the address, so that it can be gone back to and shared. */
function App(): JSX.Element {
  const place = usePlace();
  const [locked, setLocked] = useState<"open" | "asking" | "refused">("open");
  useEffect(() => {
    gate.locked = () => setLocked(hasToken() ? "refused" : "asking");
  }, []);
  if (locked !== "open") {
    const enter = (token: string) => {
      keepToken(token);
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
          <a href="#/" aria-current={place.view === "new" ? "page" : undefined}>New session</a>
          <a href="#/overview" aria-current={place.view === "overview" ? "page" : undefined}>Overview</a>
        </nav>
      </header>
      <SessionList place={place} />
      <main id="main" tabIndex={-1}>{view(place)}</main>
    </>
  );
}

function view(place: Place): JSX.Element {
  switch (place.view) {
    case "new":
      return <NewSessionView />;
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

/** Asks for the server's token, which this browser then keeps. */
function Lock(
  { isRefused, enter }: { readonly isRefused: boolean; readonly enter: (token: string) => void },
): JSX.Element {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (token.trim() !== "") enter(token.trim());
  };
  return (
    <main class="lock">
      <h1>Tare</h1>
      <form onSubmit={submit}>
        <label for="token">The server's token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          value={token}
          aria-describedby="token-help"
          aria-invalid={isRefused}
          ref={(field) => field?.focus()}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <p id="token-help" role={isRefused ? "alert" : undefined}>
          {isRefused
            ? "That isn't the server's token. It is the one that the server was started with, TARE_TOKEN."
            : "It is what TARE_TOKEN said when the server was started. This browser keeps it for this server."}
        </p>
        <button type="submit" class="primary">Enter</button>
      </form>
    </main>
  );
}
