import type { Hold, SharedStore } from "../port.ts";
import type { Connections } from "./connections.ts";
import { columnText, nameIn } from "../json_text.ts";
import { HeldPlace, type Writer } from "./records.ts";
import { asRefusal } from "./refusals.ts";
import { openTalk } from "./talk.ts";

/** How a lease is kept. */
export interface LeaseOptions {
  /** How long an opening that was lost keeps its sessions from others. */
  readonly leaseMs: number;
  /** How often the lease is renewed. */
  readonly renewMs: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly clock: () => number;
}

/** What an opening holds of the sessions that several have. */
export interface Leases {
  readonly shared: Omit<SharedStore, "commitBriefly">;
  /** Who writes now. It has joined when this resolves. */
  writer(): Promise<Writer>;
  /** Runs what has to do with these sessions, one after the other of each. */
  inOrder<T>(sessionIds: readonly string[], act: () => Promise<T>): Promise<T>;
  /** A session that was removed is nobody's. */
  forget(sessionId: string): void;
  /** Gives all back. */
  close(): Promise<void>;
}

interface HeldSession {
  readonly place: HeldPlace;
  readonly hold: Hold;
  readonly end: AbortController;
}

/** An opening as the others know it. One that has lost its lease goes on under another name. */
interface Member {
  readonly id: string;
  readonly held: Map<string, HeldSession>;
  /** Until when nobody can have taken it for dead, by the clock. */
  sureUntilMs: number;
  joined: Promise<void> | undefined;
}

/** After an error the lease is renewed sooner: there is little time left. */
const RETRY_MS = 250;

/** Joins those who have the store open. */
export async function openLeases(connections: Connections, options: LeaseOptions): Promise<Leases> {
  const { leaseMs, renewMs, clock } = options;
  let listener: Parameters<SharedStore["listen"]>[0] = { asked: () => {}, gone: () => {} };
  let isOpen = true;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let expiry: ReturnType<typeof setTimeout> | undefined;
  let others: ReadonlySet<string> = new Set();
  const turns = new Map<string, Promise<unknown>>();
  let me = newMember();

  const query = async <Row>(sql: string, values: Parameters<Connections["query"]>[1]): Promise<Row> => {
    try {
      const [row] = await connections.query<Row>(sql, values);
      return row!;
    } catch (error) {
      throw asRefusal(error);
    }
  };
  const join = (member: Member): Promise<void> =>
    member.joined ??= (async () => {
      const sentMs = clock();
      await query("SELECT tare.join_in($1, $2)", [member.id, leaseMs]);
      sureFrom(member, sentMs);
    })().catch((error) => {
      member.joined = undefined;
      throw error;
    });
  /** A clock may stand still in between: whoever is asked looks at it again. */
  const sureFrom = (member: Member, sentMs: number) => {
    member.sureUntilMs = sentMs + leaseMs;
    clearTimeout(expiry);
    if (isOpen) expiry = setTimeout(() => clock() < member.sureUntilMs || lose(member), leaseMs);
  };
  /** Others may have taken all by now: nothing of it is sure any more, and what was held is left to whoever takes it. */
  const lose = (lost: Member) => {
    if (lost !== me || !isOpen) return;
    me = newMember();
    for (const { end } of lost.held.values()) end.abort();
    lost.held.clear();
    (async () => {
      await query("SELECT tare.give_up($1)", [lost.id]);
      await join(me);
      listener.gone();
    })().catch(() => {
      // The database is away. It takes the lost one for dead by itself, and the next renewal joins.
    });
  };
  const renew = async () => {
    const member = me;
    await join(member);
    const sentMs = clock();
    const [row] = await talk.query<{ readonly ids: readonly string[] | null }>(
      "SELECT tare.renew($1) AS ids",
      [
        member.id,
      ],
    );
    if (member !== me || !isOpen) return;
    if (!row?.ids) return lose(member);
    sureFrom(member, sentMs);
    const ids = new Set(row.ids);
    const isGone = [...others].some((id) => !ids.has(id));
    others = ids;
    if (isGone) {
      listener.gone();
      talk.wake();
    }
    await letGo(member);
    await talk.lookForRequests();
  };
  /** What a hold took that was lost on its way, and came when this opening had given the session back again. */
  const letGo = async (member: Member) => {
    const rows = await connections.query<{ id: string; fence: number }>(
      "SELECT s.id, h.fence FROM tare.heads h JOIN tare.sessions s ON s.key = h.session WHERE h.holder = $1",
      [member.id],
    );
    for (const { id, fence } of rows) {
      const name = nameIn(id);
      if (member.held.has(name) || turns.has(name)) continue;
      await inOrder([name], async () => {
        if (!member.held.has(name)) await query("SELECT tare.release($1, $2, $3)", [id, member.id, fence]);
      });
    }
  };
  let renewing: Promise<void> | undefined;
  /** Renews now, and again and again. */
  const beat = () => {
    clearTimeout(timer);
    renewing ??= renew().then(() => renewMs, () => Math.min(renewMs, RETRY_MS)).then((waitMs) => {
      renewing = undefined;
      if (isOpen) timer = setTimeout(beat, waitMs);
    });
    return renewing;
  };

  const inOrder: Leases["inOrder"] = (ids, act) => {
    const before = ids.map((id) => turns.get(id));
    const turn = Promise.all(before).then(act);
    const done = turn.then(() => {}, () => {});
    for (const id of ids) turns.set(id, done);
    done.then(() => {
      for (const id of ids) if (turns.get(id) === done) turns.delete(id);
    });
    return turn;
  };
  const hold = async (sessionId: string): Promise<Hold | undefined> => {
    for (;;) {
      const member = me;
      const known = member.held.get(sessionId)?.hold;
      if (known) return known;
      await join(member);
      const { fence, commits, state } = await query<{ fence: number; commits: number; state: string }>(
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
      const end = new AbortController();
      const made: Hold = {
        fence,
        signal: end.signal,
        isSure: () => member.held.get(sessionId)?.hold === made && clock() < member.sureUntilMs,
      };
      member.held.set(sessionId, { hold: made, end, place: new HeldPlace(fence, commits) });
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
    async look(id) {
      const { fence, holder, last } = await query<
        { fence: number; holder: Awaited<ReturnType<SharedStore["look"]>>["holder"]; last: number }
      >(
        "SELECT * FROM tare.look($1, $2)",
        [columnText(id), me.id],
      );
      return { fence, holder, lastEvent: last };
    },
    async left() {
      const rows = await connections.query<{ id: string }>(
        `SELECT s.id FROM tare.heads h JOIN tare.sessions s ON s.key = h.session
         WHERE h.holder IS NOT NULL AND NOT tare.is_there(h.holder) ORDER BY s.key`,
      );
      return rows.map(({ id }) => nameIn(id));
    },
    watch: (id, changed) => talk.watch(id, changed),
    ask: (id, body) => talk.ask(id, body),
    listen: (told) => void (listener = told),
  };
  const talk = await openTalk(connections, {
    query,
    limitMs: Math.max(1000, leaseMs / 3),
    serverId: () => me.id,
    fenceOf: (sessionId) => me.held.get(sessionId)?.place.fence,
    asked: (request) => listener.asked(request),
    beat: () => void beat(),
  });
  try {
    // Who is there now is missed when it is gone.
    await renew();
  } catch (error) {
    await talk.close();
    throw error;
  }
  timer = setTimeout(beat, renewMs);
  return {
    shared,
    async writer() {
      const member = me;
      await join(member);
      return { server: member.id, placeOf: (sessionId) => member.held.get(sessionId)?.place };
    },
    inOrder,
    forget: (sessionId) => void me.held.delete(sessionId),
    async close() {
      isOpen = false;
      clearTimeout(timer);
      clearTimeout(expiry);
      // A renewal that is under way ends with its connection.
      await talk.close();
      await renewing;
      await Promise.all(turns.values());
      me.held.clear();
      await query("SELECT tare.leave($1)", [me.id]);
    },
  };
}

function newMember(): Member {
  return { id: crypto.randomUUID(), held: new Map(), sureUntilMs: -Infinity, joined: undefined };
}
