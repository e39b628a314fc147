import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, errorMessage } from "./api/api.ts";
import { type GatewayRow, gatewayTitleOf, type OwnSession, titleOf } from "./api/sessions.ts";
import { money, type Priced } from "./parts/spent.tsx";
import { Trouble } from "./parts/trouble.tsx";
import { addressOf, type Place } from "./place.ts";
import { CHANGED } from "./chat/conversation.ts";
import { type Listed, notifyListed } from "./chat/session_updates.ts";

const PAGE = 50;

/** Refresh interval in milliseconds. */
const EVERY = 3_000;

/** Debounce in milliseconds. */
const PAUSE = 150;

interface OfKind {
  readonly agent: OwnSession;
  readonly gateway: GatewayRow;
}

interface Page<Session> {
  readonly sessions: readonly Session[];
  readonly hasMore: boolean;
}

export function SessionList({ place }: { readonly place: Place }): JSX.Element {
  const [query, setQuery] = useState("");
  const { sessions, hasMore, more, trouble } = useSessions("agent", query.trim());
  const gateway = useSessions("gateway", query.trim());
  const isNone = sessions.length + gateway.sessions.length === 0;
  const open = "id" in place ? place.id : undefined;
  const current = (id: string) => id === open ? "page" as const : undefined;
  return (
    <div class="sessions">
      <label class="visually-hidden" for="find">Find sessions by title</label>
      <input
        id="find"
        type="search"
        placeholder="Find by title"
        maxLength={200}
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
      />
      <h2 class="visually-hidden">Sessions</h2>
      <Days
        sessions={withSubagents(sessions)}
        at={({ createdAt, parent }) => parent ? undefined : createdAt}
        row={(session) => (
          <li key={session.id} class={session.parent && "subagent"}>
            <a href={addressOf({ view: "talk", id: session.id })} aria-current={current(session.id)}>
              <bdi class="title">{titleOf(session)}</bdi>
              <small>
                {session.awaitsApproval
                  ? <span class="badge awaits">needs approval</span>
                  : session.status === "running" && <span class="badge running">running</span>}
                {session.parent && "subagent · "}
                {session.forkedFrom && "fork · "}
                {metricsOf({ ...session, ...session.totals })}
              </small>
            </a>
          </li>
        )}
      />
      <Trouble text={trouble ?? gateway.trouble} />
      {isNone && <p class="empty">{query.trim() === "" ? "No sessions yet." : "No titles match."}</p>}
      {hasMore && <button type="button" class="quiet" onClick={more}>Older sessions</button>}
      {gateway.sessions.length > 0 && (
        <>
          <h2>Gateway sessions</h2>
          <Days
            sessions={gateway.sessions}
            at={({ lastAt }) => lastAt}
            row={(session) => (
              <li key={session.id}>
                <a
                  href={addressOf({ view: "calls", kind: "gateway", id: session.id })}
                  aria-current={current(session.id)}
                >
                  <bdi class="title">{gatewayTitleOf(session)}</bdi>
                  <small>{metricsOf({ ...session, createdAt: session.lastAt })}</small>
                </a>
              </li>
            )}
          />
          {gateway.hasMore && (
            <button type="button" class="quiet" onClick={gateway.more}>Older gateway sessions</button>
          )}
        </>
      )}
    </div>
  );
}

function metricsOf(
  { calls, createdAt, model, agent, ...cost }:
    & Priced
    & Pick<GatewayRow, "calls" | "createdAt" | "model">
    & {
      readonly agent?: string | null;
    },
): string {
  const when = new Date(createdAt).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return [when, calls > 0 && money(cost), model, agent].filter(Boolean).join(" · ");
}

/** Sessions grouped by day, in the given order. Those without a time belong to the previous one. */
function Days<Session>({ sessions, at, row }: {
  readonly sessions: readonly Session[];
  readonly at: (session: Session) => string | undefined;
  readonly row: (session: Session) => JSX.Element;
}): JSX.Element {
  let day = "";
  const days = Map.groupBy(sessions, (session) => {
    const time = at(session);
    return day = time === undefined && day !== "" ? day : dayOf(time ?? 0);
  });
  return (
    <>
      {Array.from(days, ([day, its]) => (
        <section key={day}>
          <h3>{day}</h3>
          <ul>{its.map(row)}</ul>
        </section>
      ))}
    </>
  );
}

const DAY_MS = 24 * 60 * 60_000;

function dayOf(time: string | number): string {
  const inWords = (time: string | number) =>
    new Date(time).toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long" });
  const day = inWords(time);
  if (day === inWords(Date.now())) return "Today";
  return day === inWords(Date.now() - DAY_MS) ? "Yesterday" : day;
}

function useSessions<Kind extends keyof OfKind>(kind: Kind, search: string): Page<OfKind[Kind]> & {
  readonly more: () => Promise<void>;
  readonly trouble: string | undefined;
} {
  type Session = OfKind[Kind];
  const [page, setPage] = useState<Page<Session> & { readonly search?: string }>({
    sessions: [],
    hasMore: false,
  });
  const [trouble, setTrouble] = useState<string>();
  const isOfKind = (session: OwnSession | GatewayRow): session is Session => session.kind === kind;
  const read = async (after?: string): Promise<Page<Session> | undefined> => {
    try {
      const query = { kind, subagents: kind === "agent", limit: PAGE, search, after } as const;
      const { sessions, hasMore } = await api.json("GET /sessions", { query });
      setTrouble(undefined);
      return { sessions: sessions.filter(isOfKind), hasMore };
    } catch (error) {
      setTrouble(errorMessage(error));
      return undefined;
    }
  };
  useRefresh(async (isStale) => {
    const newest = await read();
    if (!newest || isStale()) return;
    setPage((page) => ({ ...(page.search === search ? join(newest, page) : newest), search }));
    for (const session of newest.sessions) notifyListed(session.id, listedAs(session));
  }, search);
  const more = async () => {
    const older = await read(page.sessions.at(-1)?.id);
    if (!older) return;
    setPage(({ sessions }) => ({
      search,
      sessions: [...sessions, ...older.sessions],
      hasMore: older.hasMore,
    }));
  };
  return { ...page, more, trouble };
}

function listedAs(session: OwnSession | GatewayRow): Listed {
  return session.kind === "agent"
    ? {
      mark: `${session.lastEvent} ${session.status} ${session.title} ${session.model} ${session.effort}`,
      session,
    }
    : { mark: `${session.lastAt} ${session.title}` };
}

/** Reads at once, after each change, at intervals while the page is visible, and when `what` changes. */
function useRefresh(read: (isStale: () => boolean) => Promise<void>, what: string): void {
  useEffect(() => {
    let isStale = false;
    const refresh = () => {
      read(() => isStale);
    };
    const first = setTimeout(refresh, what === "" ? 0 : PAUSE);
    const timer = setInterval(() => document.visibilityState === "visible" && refresh(), EVERY);
    addEventListener(CHANGED, refresh);
    return () => {
      isStale = true;
      clearTimeout(first);
      clearInterval(timer);
      removeEventListener(CHANGED, refresh);
    };
  }, [what]);
}

/** Returns each session followed by its subagents. A subagent without its parent in the list retains its position. */
function withSubagents(sessions: readonly OwnSession[]): readonly OwnSession[] {
  const ids = new Set(sessions.map(({ id }) => id));
  const isBehind = ({ parent }: OwnSession) => parent !== undefined && ids.has(parent.session);
  return sessions.filter((session) => !isBehind(session)).flatMap((session) => [
    session,
    ...sessions.filter(({ parent }) => parent?.session === session.id).reverse(),
  ]);
}

function join<Session extends { readonly id: string }>(
  newest: Page<Session>,
  known: Page<Session>,
): Page<Session> {
  const last = newest.sessions.at(-1)?.id;
  const at = known.sessions.findIndex(({ id }) => id === last);
  if (at < 0 || at + 1 >= known.sessions.length) return newest;
  return { sessions: [...newest.sessions, ...known.sessions.slice(at + 1)], hasMore: known.hasMore };
}
