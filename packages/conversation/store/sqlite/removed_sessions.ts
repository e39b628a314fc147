import type { Database } from "./database.ts";

/** Removes sessions, however large they are, without keeping the process from everything else. */
export interface RemovedSessions {
  /** Takes a session away at once. False if there is none. */
  remove(id: string): boolean;
  /** Frees what removed sessions took, also those of an earlier process, and gives the room back to the system. */
  sweep(isOpen: () => boolean): Promise<void>;
}

/** Events and archived texts that one transaction removes: some milliseconds' work. */
const SLICE = 250;

/** Unused pages that are given back at a time: at most some thirty milliseconds' work. */
const PAGES = 256;

/** Sessions that were removed go under such a name until nothing is left of them. */
const REMOVED = "removed:";

/** Removes sessions from a file. */
export function removedSessions(database: Database): RemovedSessions {
  const rename = database.prepare<{ readonly key: number }>(
    `UPDATE sessions SET id = '${REMOVED}' || hex(randomblob(16)) WHERE id = ? RETURNING key`,
  );
  const own = ["activity", "documents", "idempotency_keys"].map((table) =>
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
    remove: (id) =>
      database.release(() => {
        const row = rename.get(id);
        if (row) { for (const statement of own) statement.run(row.key); }
        return row !== undefined;
      }),
    sweep: (isOpen) => sweeping ??= sweepAll(isOpen).finally(() => sweeping = undefined),
  };
}

/** Lets the process do what waits. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
