import type { HolderRequest, SharedStore } from "../port.ts";
import type { Connections, OwnConnection, Value } from "./connections.ts";
import { columnText, jsonText, nameIn } from "../json_text.ts";

/** What openings tell each other, by a connection that nothing else waits on. */
export interface Talk extends Pick<SharedStore, "watch" | "ask"> {
  /** Runs a statement on that connection, which is made anew if it was lost. */
  query<Row>(sql: string, values: readonly Value[]): Promise<Row[]>;
  /** Lets all who wait look for themselves. */
  wake(): void;
  /** Tells of what is asked of this opening and wasn't told yet. */
  lookForRequests(): Promise<void>;
  close(): Promise<void>;
}

/** What of an opening this needs to know. */
export interface Talker {
  /** Runs a statement on whatever connection, and gives its first row. */
  readonly query: <Row>(sql: string, values: readonly Value[]) => Promise<Row>;
  /** How long a statement on that connection may take: others need to be heard in time. */
  readonly limitMs: number;
  readonly serverId: () => string;
  readonly fenceOf: (sessionId: string) => number | undefined;
  readonly asked: (request: HolderRequest) => void;
  /** Finds out at once who is there. */
  readonly beat: () => void;
}

/** How often is asked whether something has changed, for notifications get lost with their connection. */
const POLL_MS = 1500;

/** How long others notify of a session that was asked for, in seconds: several times as long. */
const WATCH_S = 10;

/** PostgreSQL takes notifications of 8,000 bytes; longer names share theirs. */
const NOTIFIED_LENGTH = 1000;

/** Hears what the others say. */
export async function openTalk(connections: Connections, talker: Talker): Promise<Talk> {
  const watchers = new Map<string, Set<() => void>>();
  let isOpen = true;
  let connection: Promise<OwnConnection> | undefined;
  let poll: ReturnType<typeof setInterval> | undefined;
  /** Requests that this opening was told of. */
  let told = new Set<string>();

  const wake = (name: string) => {
    for (const changed of [...watchers.get(name) ?? []]) changed();
  };
  const wakeAll = () => {
    for (const name of [...watchers.keys()]) wake(name);
  };
  /** Names are those of notifications: a session's, or a request's. */
  const listen = (name: string, changed: () => void): () => void => {
    const heard = watchers.get(name) ?? new Set();
    watchers.set(name, heard.add(changed));
    poll ??= setInterval(tick, POLL_MS);
    return () => {
      heard.delete(changed);
      if (heard.size === 0 && watchers.get(name) === heard) watchers.delete(name);
      if (watchers.size > 0) return;
      clearInterval(poll);
      poll = undefined;
    };
  };
  const watchSessions = async (names: readonly string[]) => {
    // Whatever comes of it: those who wait look for themselves, and hear of what fails.
    await talker.query("SELECT tare.watch($1, $2)", [names, WATCH_S]).catch(() => {});
  };
  const tick = async () => {
    const names = [...watchers.keys()].filter((name) => name.startsWith("w")).map((name) => name.slice(1));
    if (names.length > 0) await watchSessions(names);
    wakeAll();
  };
  const notified = (payload: string) => {
    const about = payload.slice(1);
    if (payload.startsWith("a")) {
      if (about === talker.serverId()) lookForRequests().catch(() => {});
    } else if (payload.startsWith("g")) talker.beat();
    else wake(payload);
  };
  const connect = async (): Promise<OwnConnection> => {
    const made = await connections.open(talker.limitMs);
    try {
      const ended = () => {
        connection = undefined;
        // It may take notifications along: everything is looked at anew, on another connection.
        if (isOpen) talker.beat();
      };
      made.onEvent({ notified, ended });
      await made.query("LISTEN tare");
    } catch (error) {
      await made.close();
      throw error;
    }
    wakeAll();
    return made;
  };
  const connected = (): Promise<OwnConnection> => {
    if (!isOpen) throw new Error("Cannot use the store: it is closed");
    const made = connection ??= connect();
    made.catch(() => {
      if (connection === made) connection = undefined;
    });
    return made;
  };
  /** One after the other: what was seen before something was asked says nothing of what was told. */
  let looking: Promise<void> = Promise.resolve();
  const lookForRequests = () => looking = looking.catch(() => {}).then(look);
  const look = async () => {
    const rows = await connections.query<{ id: string; session: string; fence: number; json: string }>(
      `SELECT r.id, s.id AS session, r.fence, r.json FROM tare.requests r JOIN tare.sessions s ON s.key = r.session
       WHERE r.holder = $1 AND r.answer IS NULL AND NOT r.is_withdrawn ORDER BY r.made_at`,
      [talker.serverId()],
    );
    const before = told;
    told = new Set(rows.map(({ id }) => id));
    for (const { id, session, fence, json } of rows) {
      const sessionId = nameIn(session);
      if (!before.has(id) && talker.fenceOf(sessionId) === fence && isOpen) {
        talker.asked({ id, sessionId, body: JSON.parse(json) });
      }
    }
  };
  await connected();
  return {
    query: async <Row>(sql: string, values: readonly Value[]) => (await connected()).query<Row>(sql, values),
    wake: wakeAll,
    lookForRequests,
    watch(sessionId, changed) {
      const name = columnText(sessionId).slice(0, NOTIFIED_LENGTH);
      const end = listen(`w${name}`, changed);
      let isWanted = true;
      watchSessions([columnText(sessionId)]).then(() => isWanted && changed());
      return () => {
        isWanted = false;
        end();
      };
    },
    async ask(sessionId, body) {
      const id = crypto.randomUUID();
      const values = [columnText(sessionId), id, jsonText(body)];
      const name = columnText(sessionId).slice(0, NOTIFIED_LENGTH);
      let changed = Promise.withResolvers<void>();
      const ends = [`w${name}`, `r${id}`].map((name) => listen(name, () => changed.resolve()));
      try {
        const { asked } = await talker.query<{ asked: boolean }>(
          "SELECT tare.ask($1, $2, $3) AS asked",
          values,
        );
        if (!asked) return undefined;
        for (;; await changed.promise) {
          changed = Promise.withResolvers();
          const { is_over, answer } = await talker.query<{ is_over: boolean; answer: string | null }>(
            "SELECT * FROM tare.asked($1)",
            [id],
          );
          if (!is_over) continue;
          if (answer === null) return undefined;
          return { answer: JSON.parse(answer) };
        }
      } finally {
        for (const end of ends) end();
      }
    },
    async close() {
      isOpen = false;
      clearInterval(poll);
      wakeAll();
      await (await connection?.catch(() => undefined))?.close();
    },
  };
}
