import type { JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { askJson } from "./api/api.ts";
import { type Session, titleOf } from "./api/sessions.ts";
import { counted, share } from "./parts/format.ts";
import { addressOf, type Place } from "./place.ts";
import { CHANGED } from "./talk/conversation.ts";
import { heard } from "./talk/heard.ts";

/** Sessions that are read at a time. */
const PAGE = 50;

/** How often the list is read again while somebody looks, in milliseconds. */
const EVERY = 3_000;

interface Page {
  readonly sessions: readonly Session[];
  readonly hasMore: boolean;
}

/** The sessions, the newest first, page by page, found by their words. */
export function SessionList({ place }: { readonly place: Place }): JSX.Element {
  const [query, setQuery] = useState("");
  const { sessions, hasMore, more } = useSessions();
  const words = query.trim().toLowerCase();
  const found = words === ""
    ? sessions
    : sessions.filter((one) => titleOf(one).toLowerCase().includes(words));
  const open = "id" in place ? place.id : undefined;
  return (
    <aside class="sessions" aria-label="Sessions">
      <label class="hidden" for="find">Find sessions</label>
      <input
        id="find"
        type="search"
        placeholder="Find sessions"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <ul>
        {found.map((session) => (
          <li key={session.id}>
            <a
              href={addressOf({ view: "talk", id: session.id })}
              aria-current={session.id === open ? "page" : undefined}
            >
              <bdi class="title">{titleOf(session)}</bdi>
              <small>
                {session.status === "running" && <span class="running">running ·</span>}
                {counted(session.ledger.calls, "call")}
                {session.ledger.calls > 0 &&
                  ` · ${share(session.ledger.cachedTokens, session.ledger.promptTokens)} from cache`}
              </small>
            </a>
          </li>
        ))}
      </ul>
      {sessions.length === 0 && <p class="none">No sessions yet.</p>}
      {sessions.length > 0 && found.length === 0 && <p class="none">None of these says so.</p>}
      {hasMore && <button type="button" class="quiet" onClick={more}>Older sessions</button>}
    </aside>
  );
}

function useSessions(): Page & { readonly more: () => Promise<void> } {
  const [page, setPage] = useState<Page>({ sessions: [], hasMore: false });
  const refresh = useCallback(async () => {
    const newest = await askJson<Page>(`/v1/sessions?limit=${PAGE}`).catch(() => undefined);
    if (!newest) return;
    setPage((page) => ({ ...newest, ...join(newest, page) }));
    for (const session of newest.sessions) heard(session);
  }, []);
  useEffect(() => {
    refresh();
    const timer = setInterval(() => document.visibilityState === "visible" && refresh(), EVERY);
    addEventListener(CHANGED, refresh);
    return () => {
      clearInterval(timer);
      removeEventListener(CHANGED, refresh);
    };
  }, []);
  const more = async () => {
    const after = page.sessions.at(-1)?.id ?? "";
    const older = await askJson<Page>(`/v1/sessions?limit=${PAGE}&after=${encodeURIComponent(after)}`);
    setPage(({ sessions }) => ({ sessions: [...sessions, ...older.sessions], hasMore: older.hasMore }));
  };
  return { ...page, more };
}

/** The newest page, and behind it what was read of older ones. */
function join(newest: Page, known: Page): Page {
  const last = newest.sessions.at(-1)?.id;
  const at = known.sessions.findIndex(({ id }) => id === last);
  if (at < 0 || at + 1 >= known.sessions.length) return newest;
  return { sessions: [...newest.sessions, ...known.sessions.slice(at + 1)], hasMore: known.hasMore };
}
