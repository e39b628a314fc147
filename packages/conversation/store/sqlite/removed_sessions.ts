import type { SessionRecord, Store } from "../port.ts";
import type { Database } from "./database.ts";

/** Removes sessions, however large they are, without keeping the process from everything else. */
export interface RemovedSessions {
  /** Takes a session away at once. False if there is none. */
  remove(id: string): boolean;
  /** Takes away sessions beyond these limits, one after the other as long as the file is open, and tells how many. */
  expire(limits: Parameters<Store["expireSessions"]>[0], isOpen: () => boolean): Promise<number>;
  /** Frees what removed sessions took, also those of an earlier process, and gives the room back to the system. */
  sweep(isOpen: () => boolean): Promise<void>;
}

/** Events and archived texts that one transaction removes: some milliseconds' work. */
const SLICE = 250;

/** Sessions that one transaction weighs. */
const WEIGHED = 50;

/** Unused pages that are given back at a time: at most some thirty milliseconds' work. */
const PAGES = 256;

/** Sessions that were removed go under such a name until nothing is left of them. */
const REMOVED = "removed:";

/** Removes sessions from a file. */
export function removedSessions(database: Database): RemovedSessions {
  const rename = database.prepare<{ readonly key: number }>(
    `UPDATE sessions SET id = '${REMOVED}' || hex(randomblob(16)) WHERE id = ? RETURNING key`,
  );
  const own = ["activity", "names", "documents", "idempotency_keys"].map((table) =>
    database.prepare(`DELETE FROM ${table} WHERE session = ?`)
  );
  const next = database.prepare<{ readonly key: number }>(
    `SELECT key FROM sessions WHERE id >= '${REMOVED}' AND id < '${REMOVED}~'
       AND NOT EXISTS (SELECT 1 FROM activity WHERE session = key) LIMIT 1`,
  );
  const parts = [["events", "number"], ["archived", "ref"]].map(([table, name]) =>
    database.prepare(
      `DELETE FROM ${table} WHERE session = ?1
         AND ${name} IN (SELECT ${name} FROM ${table} WHERE session = ?1 LIMIT ${SLICE})`,
    )
  );
  // What is left goes by the schema's cascades.
  const finish = database.prepare("DELETE FROM sessions WHERE key = ?");
  const unweighed = database.prepare<{ readonly session: number }>(
    `SELECT session FROM activity WHERE kind = ? AND session > ? AND bytes IS NULL ORDER BY session LIMIT ${WEIGHED}`,
  );
  const weigh = database.prepare(
    `UPDATE activity SET bytes =
       (SELECT coalesce(sum(length(json)), 0) FROM events WHERE session = ?1) +
       (SELECT coalesce(sum(length(json)), 0) FROM state WHERE session = ?1) +
       (SELECT coalesce(sum(length(zstd)), 0) FROM archived JOIN texts USING (ref) WHERE session = ?1)
     WHERE session = ?1`,
  );
  const beyond = database.prepare<{ readonly id: string; readonly touched: number }>(
    `SELECT id, touched_at_ms AS touched FROM (
       SELECT session, touched_at_ms, sum(bytes) OVER (ORDER BY touched_at_ms DESC, session DESC) AS total
       FROM activity WHERE kind = ?
     ) JOIN sessions ON key = session WHERE touched_at_ms < ? OR total > ? ORDER BY touched_at_ms, key`,
  );
  const isTouchedAt = database.prepare(
    "SELECT 1 FROM activity JOIN sessions ON key = session WHERE id = ? AND touched_at_ms = ?",
  );
  const remove: RemovedSessions["remove"] = (id) =>
    database.release(() => {
      const row = rename.get(id);
      if (row) { for (const statement of own) statement.run(row.key); }
      return row !== undefined;
    });
  const weighAll = async ({ kind }: Pick<SessionRecord, "kind">, isOpen: () => boolean) => {
    for (let last = 0; isOpen(); await pause()) {
      const rows = unweighed.all(kind, last);
      if (rows.length === 0) return;
      last = rows.at(-1)!.session;
      database.transaction(() => rows.forEach(({ session }) => weigh.run(session)));
    }
  };
  let sweeping: Promise<void> | undefined;

  const sweepAll = async (isOpen: () => boolean) => {
    try {
      for (; isOpen(); await pause()) {
        const left = next.get();
        if (left) freeSlice(left.key);
        else if (database.shrink(PAGES) === 0) return;
      }
    } finally {
      database.restock();
    }
  };
  const freeSlice = (key: number) => {
    const removed = database.release(() => parts.reduce((sum, part) => sum + part.run(key), 0));
    if (removed === 0) database.release(() => finish.run(key));
  };
  return {
    remove,
    async expire(limits, isOpen) {
      const { kind, beforeMs, maxBytes } = limits;
      await weighAll(limits, isOpen);
      let expired = 0;
      if (!isOpen()) return expired;
      for (const { id, touched } of beyond.all(kind, beforeMs, maxBytes)) {
        // It may have been used while others went.
        if (isTouchedAt.get(id, touched) && remove(id)) expired++;
        await pause();
        if (!isOpen()) break;
      }
      return expired;
    },
    sweep: (isOpen) => sweeping ??= sweepAll(isOpen).finally(() => sweeping = undefined),
  };
}

/** Lets the process do what waits. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
