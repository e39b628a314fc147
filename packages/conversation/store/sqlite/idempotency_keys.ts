import type { IdempotencyKey, Store, StoreRecord } from "../port.ts";
import { notClaimedError } from "../store_error.ts";
import { type Database, fromStoredJson, toStoredJson } from "./database.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

interface KeyRow {
  readonly body_hash: string;
  readonly owner: string;
  readonly json: string | null;
  readonly crc: number;
}

/** Keys of requests that were sent before. */
export interface IdempotencyRows {
  /** Takes a key, or says who has it. */
  claim(request: IdempotencyKey & { readonly bodyHash: string }): Awaited<ReturnType<Store["claimKey"]>>;
  /** Keeps the response, inside a transaction. @throws if the key isn't claimed. */
  respond(record: Extract<StoreRecord, { type: "response" }>): void;
  /** Forgets a key that was claimed. */
  release(key: IdempotencyKey): void;
}

/** The keys in a file. `keyOf` gives a session's row, or throws. */
export function idempotencyKeys(
  database: Database,
  { now, maxKeys, keyOf }: {
    readonly now: () => number;
    readonly maxKeys: number;
    readonly keyOf: (sessionId: string) => number;
  },
): IdempotencyRows {
  // A key without a response that has another owner was claimed by a process that has ended.
  const owner = crypto.randomUUID();
  const where = "WHERE scope = ? AND key = ?";
  const mine = `${where} AND owner = ? AND json IS NULL`;
  const expire = database.prepare(
    "DELETE FROM idempotency_keys WHERE touched_at_ms <= ? AND (json IS NOT NULL OR owner <> ?)",
  );
  const crowd = database.prepare(
    `DELETE FROM idempotency_keys WHERE json IS NOT NULL AND touched_at_ms < (
       SELECT touched_at_ms FROM idempotency_keys WHERE json IS NOT NULL
       ORDER BY touched_at_ms DESC LIMIT 1 OFFSET ?
     )`,
  );
  /** Keys that were made since they were last counted. */
  let made = Infinity;
  const select = database.prepare<KeyRow>(
    `SELECT body_hash, owner, json, crc FROM idempotency_keys ${where}`,
  );
  const insert = database.prepare(
    "INSERT INTO idempotency_keys (scope, key, body_hash, owner, touched_at_ms) VALUES (?, ?, ?, ?, ?)",
  );
  const take = database.prepare(`UPDATE idempotency_keys SET owner = ?, touched_at_ms = ? ${where}`);
  const finish = database.prepare(
    `UPDATE idempotency_keys SET json = ?, crc = ?, session = ?, touched_at_ms = ? ${mine}`,
  );
  const remove = database.prepare(`DELETE FROM idempotency_keys ${mine}`);

  return {
    claim({ scope, key, bodyHash }) {
      const nowMs = now();
      return database.transaction(() => {
        expire.run(nowMs - DAY_MS, owner);
        const row = select.get(scope, key);
        if (!row) {
          if (++made > maxKeys / 10) {
            crowd.run(maxKeys);
            made = 0;
          }
          insert.run(scope, key, bodyHash, owner, nowMs);
          return { state: "new" };
        }
        const { json, crc } = row;
        if (row.body_hash !== bodyHash) return { state: "mismatch" };
        if (json !== null) return { state: "done", response: fromStoredJson({ json, crc }, database.path) };
        if (row.owner === owner) return { state: "running" };
        take.run(owner, nowMs, scope, key);
        return { state: "interrupted" };
      });
    },
    respond({ scope, key, response, sessionId }) {
      const { json, crc } = toStoredJson(response);
      const session = sessionId === undefined ? null : keyOf(sessionId);
      const changed = finish.run(json, crc, session, now(), scope, key, owner);
      if (changed === 0) throw notClaimedError({ scope, key });
    },
    release({ scope, key }) {
      database.transaction(() => remove.run(scope, key, owner));
    },
  };
}
