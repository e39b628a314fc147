import type { Database } from "./sqlite/database.ts";
import type { IdempotencyKeys } from "./session_store.ts";
import { fromStoredJson, toStoredJson } from "./sqlite/stored_json.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

interface KeyRow {
  readonly body_hash: string;
  readonly owner: string;
  readonly json: string | null;
  readonly crc: number;
}

/** Keys of requests that were sent before. `keyOf` gives a session's row, or throws. */
export function idempotencyKeys(
  database: Database,
  { now, keyOf }: { readonly now: () => number; readonly keyOf: (sessionId: string) => number },
): IdempotencyKeys {
  // A key without a response that has another owner was claimed by a process that has ended.
  const owner = crypto.randomUUID();
  const where = "WHERE scope = ? AND key = ?";
  const mine = `${where} AND owner = ? AND json IS NULL`;
  const expire = database.prepare(
    "DELETE FROM idempotency_keys WHERE touched_at_ms <= ? AND (json IS NOT NULL OR owner <> ?)",
  );
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
    complete({ scope, key }, { response, sessionId }) {
      const { json, crc } = toStoredJson(response);
      database.transaction(() => {
        const session = sessionId === undefined ? null : keyOf(sessionId);
        if (finish.run(json, crc, session, now(), scope, key, owner) === 1) return;
        throw new Error(
          `Cannot complete idempotency key ${JSON.stringify(key)} of ${scope}: it isn't claimed`,
        );
      });
    },
    release({ scope, key }) {
      remove.run(scope, key, owner);
    },
  };
}
