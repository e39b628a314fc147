import { columnText, jsonText, nameIn } from "../json_text.ts";
import type {
  Hold,
  HolderRequest,
  OpeningListener,
  SessionSnapshot,
  SharedStore,
  StoredEvent,
} from "../port.ts";
import type { SqlValue } from "../queries.ts";
import type { Connections, OwnConnection } from "./connections.ts";
import { HoldPosition, type Writer } from "./records.ts";
import { asRefusal } from "./refusals.ts";

interface LeaseOptions {
  /** Milliseconds until the sessions of a lost opening can be taken over. */
  readonly leaseMs: number;
  readonly renewMs: number;
  readonly clock: () => number;
}

export interface Leases {
  readonly shared: Omit<SharedStore, "holdAndCommit">;
  /** Known lead of the database's clock, in milliseconds. */
  clockOffsetMs(): number;
  writer(): Promise<Writer>;
  /** The newest ids: each lost lease changes the id. */
  serverIds(): readonly string[];
  loseLease(name: string): void;
  /** Called after each renewal. A rejection fails that renewal. */
  onRenewed(work: () => Promise<void>): void;
  inOrder<T>(sessionIds: readonly string[], act: () => Promise<T>): Promise<T>;
  forget(sessionId: string): void;
  close(): Promise<void>;
}

interface HeldSession {
  readonly place: HoldPosition;
  readonly hold: Hold;
  readonly end: AbortController;
}

/** An opening's identity. After a lost lease it continues under another one. */
interface Member {
  readonly id: string;
  readonly held: Map<string, HeldSession>;
  /** End of the certain part of the lease, by the clock. */
  certainUntilMs: number;
  joined: Promise<void> | undefined;
}

/** Most remembered ids: requests don't outlast that many leases. */
const MAX_SERVER_IDS = 16;

const RETRY_MS = 250;

export async function openLeases(connections: Connections, options: LeaseOptions): Promise<Leases> {
  const { leaseMs, renewMs, clock } = options;
  let listener: OpeningListener = { onRequest: () => {}, onExpired: () => {} };
  let isOpen = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let expiry: ReturnType<typeof setTimeout> | undefined;
  let others: ReadonlySet<string> = new Set();
  const queues = new Map<string, Promise<unknown>>();
  let me = newMember();
  let clockOffsetMs = 0;
  let lostLeases = 0;
  let takenOver = 0;
  const serverIds = [me.id];
  let renewed = () => Promise.resolve();

  const query = async <Row>(sql: string, values: readonly SqlValue[]): Promise<Row> => {
    try {
      const [row] = await connections.query<Row>(sql, values);
      return row!;
    } catch (error) {
      throw asRefusal(error);
    }
  };
  const acquireLease = (member: Member): Promise<void> =>
    member.joined ??= (async () => {
      const sentMs = clock();
      await query("SELECT tare.acquire_lease($1, $2)", [member.id, leaseMs]);
      extendLease(member, sentMs);
    })().catch((error) => {
      member.joined = undefined;
      throw error;
    });
  /** Reads the clock again: a suspended process may be late. */
  const extendLease = (member: Member, sentMs: number) => {
    member.certainUntilMs = sentMs + leaseMs;
    clearTimeout(expiry);
    if (isOpen) expiry = setTimeout(() => clock() < member.certainUntilMs || lose(member), leaseMs);
  };
  /** Marks everything as lost: others may hold the sessions by now. */
  const lose = (lost: Member) => {
    if (lost !== me || !isOpen) return;
    me = newMember();
    serverIds.push(me.id);
    if (serverIds.length > MAX_SERVER_IDS) serverIds.shift();
    lostLeases++;
    for (const { end } of lost.held.values()) end.abort();
    lost.held.clear();
    (async () => {
      await query("SELECT tare.expire_lease($1)", [lost.id]);
      await acquireLease(me);
      listener.onExpired();
    })().catch(() => {
      // The database expires the lost one by itself; the next renewal joins.
    });
  };
  const renew = async () => {
    const member = me;
    await acquireLease(member);
    const sentMs = clock();
    const [row] = await channel.query<{ readonly ids: readonly string[] | null; readonly now: string }>(
      'SELECT tare.renew_lease($1) AS ids, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS "now"',
      [
        member.id,
      ],
    );
    if (row) {
      // The database's clock was read between request and reply (Cristian's algorithm). An estimate within the error is
      // retained.
      const errorMs = (clock() - sentMs) / 2;
      const measuredMs = Number(row.now) + errorMs - Date.now();
      if (Math.abs(measuredMs - clockOffsetMs) > errorMs) clockOffsetMs = measuredMs;
    }
    if (member !== me || !isOpen) return;
    if (!row?.ids) return lose(member);
    extendLease(member, sentMs);
    const ids = new Set(row.ids);
    const isGone = [...others].some((id) => !ids.has(id));
    others = ids;
    if (isGone) {
      listener.onExpired();
      channel.notifyAll();
    }
    await releaseUnknownHolds(member);
    await renewed();
    await channel.readRequests();
  };
  /** Releases sessions that this opening holds without knowing it, because the reply to the hold was lost. */
  const releaseUnknownHolds = async (member: Member) => {
    const rows = await connections.query<{ id: string; fence: number }>(
      "SELECT s.id, h.fence FROM tare.heads h JOIN tare.sessions s ON s.key = h.session WHERE h.holder = $1",
      [member.id],
    );
    for (const { id, fence } of rows) {
      const name = nameIn(id);
      if (member.held.has(name) || queues.has(name)) continue;
      await inOrder([name], async () => {
        if (!member.held.has(name)) await query("SELECT tare.release($1, $2, $3)", [id, member.id, fence]);
      });
    }
  };
  let renewing: Promise<void> | undefined;
  const heartbeat = () => {
    clearTimeout(timer);
    renewing ??= renew().then(() => renewMs, () => Math.min(renewMs, RETRY_MS)).then((waitMs) => {
      renewing = undefined;
      if (isOpen) timer = setTimeout(heartbeat, waitMs);
    });
    return renewing;
  };

  const inOrder: Leases["inOrder"] = (ids, act) => {
    const before = ids.map((id) => queues.get(id));
    const turn = Promise.all(before).then(act);
    const done = turn.then(() => {}, () => {});
    for (const id of ids) queues.set(id, done);
    done.then(() => {
      for (const id of ids) if (queues.get(id) === done) queues.delete(id);
    });
    return turn;
  };
  const hold = async (sessionId: string): Promise<Hold | undefined> => {
    for (;;) {
      const member = me;
      const known = member.held.get(sessionId)?.hold;
      if (known) return known;
      await acquireLease(member);
      const { fence, commits, state, was_expired } = await query<
        { fence: number; commits: number; state: string; was_expired: boolean }
      >(
        "SELECT * FROM tare.hold($1, $2)",
        [
          columnText(sessionId),
          member.id,
        ],
      );
      if (member !== me) continue;
      if (state === "other") return undefined;
      if (state === "unknown") {
        lose(member);
        continue;
      }
      if (was_expired) takenOver++;
      const end = new AbortController();
      const made: Hold = {
        fence,
        signal: end.signal,
        isSure: () => member.held.get(sessionId)?.hold === made && clock() < member.certainUntilMs,
      };
      member.held.set(sessionId, { hold: made, end, place: new HoldPosition(fence, commits) });
      return made;
    }
  };
  const shared: Leases["shared"] = {
    hold: (id) => inOrder([id], () => hold(id)),
    release: (id) =>
      inOrder([id], async () => {
        const member = me;
        const held = member.held.get(id);
        if (!held) return;
        member.held.delete(id);
        await query("SELECT tare.release($1, $2, $3)", [columnText(id), member.id, held.place.fence]);
      }),
    async inspect(id) {
      const row = await query<Omit<SnapshotRow, "id">>("SELECT * FROM tare.session_snapshot($1, $2)", [
        columnText(id),
        me.id,
      ]);
      return snapshotOf(row);
    },
    async abandonedSessions() {
      const rows = await connections.query<{ id: string }>(
        // By openings that are gone, which are few: every holder has a row.
        `SELECT s.id FROM (SELECT id FROM tare.servers gone WHERE tare.is_expired(gone) OFFSET 0) AS gone
           JOIN tare.heads h ON h.holder = gone.id JOIN tare.sessions s ON s.key = h.session
         ORDER BY s.key`,
      );
      return rows.map(({ id }) => nameIn(id));
    },
    watch: (id, changed) => channel.watch(id, changed),
    request: (id, body) => channel.request(id, body),
    metrics: () => ({
      leaseMs: Math.max(0, me.certainUntilMs - clock()),
      lostLeases,
      held: me.held.size,
      takenOver,
      connections: connections.metrics(),
    }),
    listen: (callbacks) => void (listener = callbacks),
  };
  const channel = await openNotificationChannel(connections, {
    query,
    limitMs: Math.max(1000, leaseMs / 3),
    serverId: () => me.id,
    fenceOf: (sessionId) => me.held.get(sessionId)?.place.fence,
    onRequest: (request) => listener.onRequest(request),
    heartbeat: () => void heartbeat(),
  });
  try {
    await renew();
  } catch (error) {
    await channel.close();
    throw error;
  }
  timer = setTimeout(heartbeat, renewMs);
  return {
    shared,
    async writer() {
      const member = me;
      await acquireLease(member);
      return { server: member.id, positionOf: (sessionId) => member.held.get(sessionId)?.place };
    },
    serverIds: () => serverIds,
    loseLease: (name) => void (name === me.id && lose(me)),
    onRenewed: (work) => void (renewed = work),
    inOrder,
    clockOffsetMs: () => clockOffsetMs,
    forget: (sessionId) => void me.held.delete(sessionId),
    async close() {
      isOpen = false;
      clearTimeout(timer);
      clearTimeout(expiry);
      await channel.close();
      await renewing;
      await Promise.all(queues.values());
      me.held.clear();
      await query("SELECT tare.release_lease($1)", [me.id]);
    },
  };
}

function newMember(): Member {
  return { id: crypto.randomUUID(), held: new Map(), certainUntilMs: -Infinity, joined: undefined };
}

interface NotificationChannel extends Pick<SharedStore, "watch" | "request"> {
  query<Row>(sql: string, values: readonly SqlValue[]): Promise<Row[]>;
  notifyAll(): void;
  readRequests(): Promise<void>;
  close(): Promise<void>;
}

interface SnapshotRow extends Pick<SessionSnapshot, "fence" | "holder"> {
  readonly id: string;
  readonly last: number;
}

function snapshotOf({ fence, holder, last }: Omit<SnapshotRow, "id">): SessionSnapshot {
  return { fence, holder, lastEvent: last };
}

function stateOf(seen: SessionSnapshot | undefined): string {
  return seen ? `${seen.fence} ${seen.lastEvent} ${seen.holder === "none"}` : "";
}

interface ChannelOptions {
  readonly query: <Row>(sql: string, values: readonly SqlValue[]) => Promise<Row>;
  readonly limitMs: number;
  readonly serverId: () => string;
  readonly fenceOf: (sessionId: string) => number | undefined;
  readonly onRequest: (request: HolderRequest) => void;
  readonly heartbeat: () => void;
}

/** Polling interval in milliseconds: notifications may be lost with their connection. */
const POLL_MS = 1500;

/** Seconds for which others notify of a session after a request. */
const WATCH_S = 5;

/** Each notification wakes every server. Above this rate watched sessions are polled instead, all with one query. */
const MAX_NOTIFICATIONS = 15;
const BUSY_POLL_MS = 100;

const UNKNOWN = Number.MAX_SAFE_INTEGER;

/** PostgreSQL's limit is 8,000 bytes; longer names share a notification. */
const NOTIFIED_LENGTH = 1000;

const NOTIFIED_NAME = /^w\["((?:[^"\\]|\\.)*)"/;

/** Session, fencing number, holder, last event, and the newest events. */
type Notification = readonly [string, number, string | null, number, readonly StoredEvent["event"][]];

async function openNotificationChannel(
  connections: Connections,
  options: ChannelOptions,
): Promise<NotificationChannel> {
  const watchers = new Map<string, Set<(seen?: SessionSnapshot) => void>>();
  let isOpen = true;
  let connection: Promise<OwnConnection> | undefined;
  let poll: ReturnType<typeof setInterval> | undefined;
  let requested = new Set<string>();

  const notifyListeners = (name: string, seen?: SessionSnapshot) => {
    for (const changed of [...watchers.get(name) ?? []]) changed(seen);
  };
  const notifyAllListeners = () => {
    for (const name of [...watchers.keys()]) notifyListeners(name);
  };
  const addListener = (name: string, changed: (seen?: SessionSnapshot) => void): () => void => {
    const listeners = watchers.get(name) ?? new Set();
    watchers.set(name, listeners.add(changed));
    poll ??= setInterval(tick, POLL_MS);
    return () => {
      listeners.delete(changed);
      if (listeners.size === 0 && watchers.get(name) === listeners) {
        watchers.delete(name);
        known.delete(name);
      }
      if (watchers.size > 0) return;
      stopPolling();
      clearInterval(poll);
      poll = undefined;
    };
  };
  const watched = () =>
    [...watchers.keys()].filter((name) => name.startsWith("w")).map((name) => name.slice(1));
  const known = new Map<string, SessionSnapshot>();
  let notificationCount = 0;
  const report = (
    name: string,
    seen: SessionSnapshot | undefined,
    events: readonly StoredEvent["event"][] = [],
  ) => {
    if (!watchers.has(name)) return;
    if (seen) known.set(name, seen);
    if (!seen || events.length === 0) return notifyListeners(name, seen);
    const first = seen.lastEvent - events.length + 1;
    notifyListeners(name, {
      ...seen,
      events: events.map((event, index) => ({ number: first + index, event })),
    });
  };
  /** Reports the state of these sessions. Others notify of them from now on, unless the rate is too high. */
  const inspect = async (names: readonly string[]) => {
    // Waiting calls query the store in any case, and see its failures.
    const rows = await connections.query<SnapshotRow>(
      "SELECT * FROM tare.watch_sessions($1, $2, $3)",
      [names, polling === undefined ? WATCH_S : 0, options.serverId()],
    ).catch(() => []);
    const seen = new Map(rows.map((row) => [row.id, snapshotOf(row)]));
    for (const name of names) report(`w${name}`, seen.get(name));
  };
  const tick = async () => {
    const isOverRate =
      notificationCount > (polling === undefined ? MAX_NOTIFICATIONS : MAX_NOTIFICATIONS / 2);
    notificationCount = 0;
    if (isOverRate) polling ??= setTimeout(pollChanges, BUSY_POLL_MS);
    else stopPolling();
    const names = watched();
    if (names.length > 0) await inspect(names);
    for (const name of [...watchers.keys()]) if (!name.startsWith("w")) notifyListeners(name);
  };
  let polling: ReturnType<typeof setTimeout> | undefined;
  const stopPolling = () => {
    clearTimeout(polling);
    polling = undefined;
  };
  const pollChanges = async () => {
    const current = polling;
    const names = watched();
    const seen = names.map((name) => known.get(`w${name}`));
    const rows = names.length === 0
      ? []
      : await connections.query<SnapshotRow & { readonly events: string | null }>(
        "SELECT * FROM tare.changed_sessions($1, $2, $3, $4)",
        [names, seen.map(stateOf), seen.map((seen) => `${seen?.lastEvent ?? UNKNOWN}`), options.serverId()],
      ).catch(() => []);
    if (polling !== current || !isOpen) return;
    for (const row of rows) {
      notificationCount += 1;
      report(`w${row.id}`, snapshotOf(row), JSON.parse(`[${row.events ?? ""}]`));
    }
    polling = setTimeout(pollChanges, BUSY_POLL_MS);
  };
  const onPayload = (payload: string) => {
    const name = NOTIFIED_NAME.exec(payload)?.[1];
    if (name === undefined) return notifyListeners(payload);
    if (!watchers.has(`w${name}`)) return;
    notificationCount += 1;
    const [, fence, holder, lastEvent, events]: Notification = JSON.parse(payload.slice(1));
    const other = holder === options.serverId() ? "this" : "other";
    report(`w${name}`, { fence, lastEvent, holder: holder === null ? "none" : other }, events);
  };
  const notified = (payload: string) => {
    const about = payload.slice(1);
    if (payload.startsWith("a")) {
      if (about === options.serverId()) readRequests().catch(() => {});
    } else if (payload.startsWith("g")) options.heartbeat();
    else onPayload(payload);
  };
  const connect = async (): Promise<OwnConnection> => {
    const made = await connections.open(options.limitMs);
    try {
      const ended = () => {
        connection = undefined;
        if (isOpen) options.heartbeat();
      };
      made.onEvent({ notified, ended });
      await made.query("LISTEN tare");
    } catch (error) {
      await made.close();
      throw error;
    }
    notifyAllListeners();
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
  /** Sequential: a lookup must not override a later notification. */
  let requestsRead: Promise<void> = Promise.resolve();
  const readRequests = () => requestsRead = requestsRead.catch(() => {}).then(readPendingRequests);
  const readPendingRequests = async () => {
    const rows = await connections.query<{ id: string; session: string; fence: number; json: string }>(
      `SELECT r.id, s.id AS session, r.fence, r.json FROM tare.requests r JOIN tare.sessions s ON s.key = r.session
       WHERE r.holder = $1 AND r.answer IS NULL AND NOT r.is_withdrawn ORDER BY r.created_at`,
      [options.serverId()],
    );
    const before = requested;
    requested = new Set(rows.map(({ id }) => id));
    for (const { id, session, fence, json } of rows) {
      const sessionId = nameIn(session);
      if (!before.has(id) && options.fenceOf(sessionId) === fence && isOpen) {
        options.onRequest({ id, sessionId, body: JSON.parse(json) });
      }
    }
  };
  await connected();
  return {
    query: async <Row>(sql: string, values: readonly SqlValue[]) =>
      (await connected()).query<Row>(sql, values),
    notifyAll: notifyAllListeners,
    readRequests,
    watch(sessionId, changed) {
      const name = columnText(sessionId);
      const end = addListener(`w${name.slice(0, NOTIFIED_LENGTH)}`, changed);
      // In polling mode unknown sessions are reported next.
      if (polling === undefined) inspect([name]);
      else known.delete(`w${name}`);
      return end;
    },
    async request(sessionId, body) {
      const id = crypto.randomUUID();
      const values = [columnText(sessionId), id, jsonText(body)];
      const name = columnText(sessionId).slice(0, NOTIFIED_LENGTH);
      let changed = Promise.withResolvers<void>();
      const ends = [`w${name}`, `r${id}`].map((name) => addListener(name, () => changed.resolve()));
      try {
        const { isRequested } = await options.query<{ isRequested: boolean }>(
          'SELECT tare.send_request($1, $2, $3) AS "isRequested"',
          values,
        );
        if (!isRequested) return undefined;
        for (;; await changed.promise) {
          changed = Promise.withResolvers();
          const { is_complete, answer } = await options.query<
            { is_complete: boolean; answer: string | null }
          >(
            "SELECT * FROM tare.request_status($1)",
            [id],
          );
          if (!is_complete) continue;
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
      stopPolling();
      notifyAllListeners();
      await (await connection?.catch(() => undefined))?.close();
    },
  };
}
